"""What reached its end is ended by an event and erased later, and a replay on any day makes the same rows."""

from datetime import timedelta
from uuid import UUID

import pytest

from store.derived.persons import Persons, Whom
from store.memory.memories import Memories, NewMemory
from store.memory.session_history import SessionHistory
from store.memory.turns import NewMessage, NewTurn
from store.replay import verify_log
from store.tenancy.banks import Banks
from store.tenancy.spaces import Space
from tests.workers.conftest import BANK, HOST
from tests.workers.maintenance.conftest import Yard
from tests.workers.stages import Crew

DAY = timedelta(days=1)


async def permit(_unit: UUID) -> None:
    """Let anything be replaced."""


async def say(yard: Yard, turn: str, content: str, ends: timedelta | None = None) -> None:
    expires_at = None if ends is None else yard.clock() + ends
    told = NewTurn("default", "s", turn, [NewMessage("user", content)], user_id="ann", expires_at=expires_at)
    await yard.world.turns.append(HOST, [told])


async def known(yard: Yard) -> list[str]:
    person = await Persons(yard.world.database, yard.clock).of(
        HOST, Space(None, None), Whom("ann"), banks=None, history=False, limit=50
    )
    return sorted(fact.value for fact in person.facts)


async def test_a_fact_ends_with_what_it_was_drawn_from_and_a_task_with_its_day(yard: Yard) -> None:
    await say(yard, "1", "My name is Ann.")
    await say(yard, "2", "I like hiking.", ends=DAY)
    await say(yard, "3", "Today I need milk.")
    await Crew(yard.world).drain()
    ends = await yard.world.sql(
        "select metadata->>'fact_id' as fact, expires_at from afterturn.agent_memory_unit_t where origin = 'extraction'"
    )
    by_fact = {row.fact: row.expires_at for row in ends}
    assert by_fact["user_name"] is None
    assert by_fact["user_like"] is not None
    midnight = by_fact["today_task"]
    assert (midnight.hour, midnight.minute) == (0, 0)
    assert timedelta() < midnight - yard.clock() <= DAY
    assert await known(yard) == ["Ann", "hiking"]
    yard.ahead = 2 * DAY
    assert await known(yard) == ["Ann"]
    holding = await SessionHistory(yard.world.database, yard.clock).holding(HOST, "default", "s", 50)
    assert [one.fact_id for one in holding] == ["user_name"]


@pytest.mark.law("L11")
async def test_what_reached_its_end_is_ended_then_erased_and_a_replay_is_equal(yard: Yard) -> None:
    await say(yard, "1", "My name is Ann.")
    await say(yard, "2", "I like Zanzibar.", ends=DAY)
    await say(yard, "3", "As I said, I like Zanzibar.", ends=DAY)
    memory = NewMemory("default", "m", "Zanzibar is far away", expires_at=yard.clock() + DAY)
    await Memories(yard.world.database, yard.clock).keep(HOST, memory, permit)
    banks = Banks(yard.world.database, yard.clock)
    await banks.create(HOST, None, "trip", yard.clock() + DAY)
    trip = NewMemory("trip", "m", "Zanzibar by boat")
    await Memories(yard.world.database, yard.clock).keep(HOST, trip, permit)
    crew = Crew(yard.world)
    await crew.drain()
    reflected = "select count(*) as n from afterturn.agent_memory_reflection_t where active"
    assert (await yard.world.sql(reflected))[0].n == 1
    assert await yard.by_hand("ending") == 0
    yard.ahead = 2 * DAY
    # Two messages, their facts, a memory and a bank.
    assert await yard.by_hand("ending") == 6
    await crew.drain()
    assert (await yard.world.sql(reflected))[0].n == 0
    living = await yard.world.sql("select content from afterturn.agent_memory_unit_t where active order by 1")
    assert [row.content for row in living] == ["My name is Ann.", "The user's name is Ann."]
    assert (await verify_log(yard.world.postgres.owner_url)).equal
    assert await yard.by_hand("ended", ended_days=1.0) == 0
    yard.ahead = 4 * DAY
    assert await yard.by_hand("ended", ended_days=1.0) == 2
    for table in ("event_store_t", "agent_memory_unit_t", "agent_memory_bank_t", "unit_word_t", "session_message_t"):
        left = await yard.world.sql(f"select count(*) as n from afterturn.{table} t where t::text ilike '%zanzibar%'")
        assert left[0].n == 0, table
    assert (await verify_log(yard.world.postgres.owner_url)).equal
    counted = await yard.world.sql("select units from afterturn.bank_statistics_t where bank_id = :bank", bank=BANK)
    assert counted[0].units == len(living)
