"""What reached its end is ended by an event and erased later, and a replay on any day makes the same rows."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from store import identity
from store.derived.persons import PersonKey, Persons
from store.erasure import Erasures, ErasureTarget
from store.errors import ResourceBusy, StatementTimeout
from store.maintenance import ExpiryTask, FoundBank
from store.memory.documents import Documents, NewDocument, content_hash
from store.memory.memories import Memories, NewMemory
from store.memory.session_history import SessionHistory, WantedFacts
from store.memory.turns import NewMessage, NewTurn
from store.memory.units import Units
from store.recall.query import RecallQuery
from store.recall.recaller import Recaller
from store.recall.settings import RecallSettings
from store.replay import verify_log
from store.tenancy.banks import Banks
from store.tenancy.spaces import Space
from tests.workers.conftest import BANK, HOST
from tests.workers.maintenance.conftest import Yard
from tests.workers.stages import Crew, KnownEmbedder

DAY = timedelta(days=1)


async def permit(_unit: UUID) -> None:
    """Let anything be replaced."""


async def say(yard: Yard, turn: str, content: str, ends: timedelta | None = None) -> None:
    expires_at = None if ends is None else yard.clock() + ends
    told = NewTurn("default", "s", turn, [NewMessage("user", content)], user_id="ann", expires_at=expires_at)
    await yard.world.turns.append(HOST, [told])


async def known(yard: Yard) -> list[str]:
    person = await Persons(yard.world.database, yard.clock).of(
        HOST, Space(None, None), PersonKey("ann"), banks=None, history=False, limit=50
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
    holding = await SessionHistory(yard.world.database, yard.clock).holding(HOST, "default", WantedFacts(50), "s")
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


async def test_a_list_outlives_a_member_that_was_said_again(yard: Yard) -> None:
    for turn, (said, ends) in enumerate([("Ghent", None), ("Porto", DAY), ("Porto", None)]):
        await say(yard, str(turn), f"I visited {said}.", ends=ends)
        await Crew(yard.world).drain()
    listed = "The user visited: Ghent; Porto."
    assert listed in await recalled(yard, "visited Porto")
    yard.ahead = 2 * DAY
    assert listed not in await recalled(yard, "visited Porto")
    assert await yard.by_hand("ending") == 2
    await Crew(yard.world).drain()
    assert listed in await recalled(yard, "visited Porto")
    assert (await verify_log(yard.world.postgres.owner_url)).equal


async def recalled(yard: Yard, asked: str, bank: str = "default", **more: Any) -> list[str]:
    recaller = Recaller(yard.world.database, KnownEmbedder(), RecallSettings(), clock=yard.clock)
    answer = await recaller.recall(HOST, RecallQuery(bank, asked, **{"k": 50, **more}))
    return sorted(one.text for one in answer.items)


@pytest.mark.parametrize("moment", ["as_of", "known_at"])
async def test_what_was_ended_by_an_event_is_told_of_a_moment_before_its_end_until_it_is_erased(
    yard: Yard, moment: str
) -> None:
    await say(yard, "1", "I like Zanzibar.", ends=DAY)
    await say(yard, "2", "I dislike Zanzibar a lot.", ends=DAY)
    await say(yard, "3", "The ferry to Zanzibar is slow.")
    memories, units = Memories(yard.world.database, yard.clock), Units(yard.world.database, yard.clock)
    for name in ("green", "gone"):
        memory = NewMemory("default", name, f"Zanzibar is {name}", expires_at=yard.clock() + DAY)
        kept = await memories.keep(HOST, memory, permit)
    await units.forget(HOST, "default", kept.unit_id)
    await Crew(yard.world).drain()
    before: dict[str, Any] = {moment: yard.clock()}
    asked: list[dict[str, Any]] = [
        {},
        {"kinds": ["world"]},
        {"roles": ["user"]},
        {"session_name": "s", "only_session": True},
    ]
    told = [await recalled(yard, "Zanzibar", **more) for more in asked]
    assert told[0] == [
        "I dislike Zanzibar a lot.",
        "I like Zanzibar.",
        "The ferry to Zanzibar is slow.",
        "Zanzibar is green",
    ]
    assert len(told[1]) == 3
    yard.ahead = 2 * DAY
    assert [await recalled(yard, "Zanzibar", **more, **before) for more in asked] == told
    assert await yard.by_hand("ending") > 0
    await Crew(yard.world).drain()
    assert [await recalled(yard, "Zanzibar", **more, **before) for more in asked] == told
    after: dict[str, Any] = {moment: yard.clock() - DAY + timedelta(minutes=1)}
    for more in (dict[str, Any](), after):
        assert await recalled(yard, "Zanzibar", **more) == ["The ferry to Zanzibar is slow."]
    vectors = await yard.world.sql(
        "select count(*) as n from afterturn.unit_vector_t v join afterturn.agent_memory_unit_t u"
        " using (host_id, bank_id, unit_id) where not u.active"
    )
    assert vectors[0].n == 0
    yard.ahead = 4 * DAY
    await yard.by_hand("ended", ended_days=1.0)
    assert await recalled(yard, "Zanzibar", **before) == ["The ferry to Zanzibar is slow."]


async def test_a_bank_that_was_ended_by_an_event_is_told_of_a_moment_before_its_end(yard: Yard) -> None:
    await Banks(yard.world.database, yard.clock).create(HOST, None, "trip", yard.clock() + 2 * DAY)
    memories, units = Memories(yard.world.database, yard.clock), Units(yard.world.database, yard.clock)
    for name, ends in (("green", None), ("brief", yard.clock() + DAY), ("gone", None)):
        memory = NewMemory("trip", name, f"The tent is {name}", expires_at=ends)
        kept = await memories.keep(HOST, memory, permit)
    await units.forget(HOST, "trip", kept.unit_id)
    await forget_document(yard, await add_document(yard, "The tent is of paper"))
    await Crew(yard.world).drain()
    moments: list[dict[str, Any]] = [{"as_of": yard.clock() + ahead} for ahead in (timedelta(), 1.5 * DAY, 2.5 * DAY)]
    told = [["The tent is brief", "The tent is green"], ["The tent is green"], []]
    yard.ahead = 3 * DAY
    assert [await recalled(yard, "tent", "trip", **moment) for moment in moments] == told
    await yard.by_hand("ending")
    await Crew(yard.world).drain()
    assert [await recalled(yard, "tent", "trip", **moment) for moment in moments] == told
    assert await recalled(yard, "tent", "trip") == []


async def add_document(yard: Yard, text: str) -> UUID:
    document = NewDocument("trip", content_hash(text.encode()), text)
    return (await Documents(yard.world.database, yard.clock).add(HOST, document)).doc_id


async def forget_document(yard: Yard, doc: UUID) -> None:
    await Documents(yard.world.database, yard.clock).forget(HOST, "trip", doc)


async def keep_tent(yard: Yard, name: str) -> UUID:
    memory = NewMemory("trip", name, f"The tent is {name}")
    return (await Memories(yard.world.database, yard.clock).keep(HOST, memory, permit)).unit_id


@pytest.mark.law("L11")
@pytest.mark.parametrize("moment", ["as_of", "known_at"])
async def test_what_was_forgotten_before_its_bank_ended_is_told_of_no_moment(yard: Yard, moment: str) -> None:
    await Banks(yard.world.database, yard.clock).create(HOST, None, "trip", yard.clock() + DAY)
    await keep_tent(yard, "green")
    gone, doc = await keep_tent(yard, "gone"), await add_document(yard, "The tent is of paper")
    before: dict[str, Any] = {moment: yard.clock()}
    await Units(yard.world.database, yard.clock).forget(HOST, "trip", gone)
    await forget_document(yard, doc)
    await Crew(yard.world).drain()
    assert await recalled(yard, "tent", "trip", **before) == ["The tent is green"]
    yard.ahead = 2 * DAY
    await yard.by_hand("ending")
    assert await recalled(yard, "tent", "trip", **before) == ["The tent is green"]


async def test_of_a_bank_that_began_again_and_ended_again_the_last_life_alone_is_told(yard: Yard) -> None:
    banks, moments = Banks(yard.world.database, yard.clock), []
    for name in ("old", "new"):
        assert (await banks.create(HOST, None, "trip", yard.clock() + DAY))[1]
        await keep_tent(yard, name)
        moments.append(yard.clock())
        await Crew(yard.world).drain()
        yard.ahead += 2 * DAY
        assert await yard.by_hand("ending") == 1
    told = [await recalled(yard, "tent", "trip", as_of=moment) for moment in moments]
    assert told == [[], ["The tent is new"]]


EXPIRING = ("camp", "cruise", "trip")


async def expire_banks(yard: Yard) -> str:
    """Let three banks expire, and a turn in a fourth; return the bank that maintenance comes to first."""
    for name in EXPIRING:
        await Banks(yard.world.database, yard.clock).create(HOST, None, name, yard.clock() + DAY)
        await Memories(yard.world.database, yard.clock).keep(HOST, NewMemory(name, "m", "Zanzibar"), permit)
    await say(yard, "1", "I like Zanzibar.", ends=DAY)
    await Crew(yard.world).drain()
    yard.ahead = 2 * DAY
    return min(EXPIRING, key=lambda name: identity.bank_id(HOST, name))


async def banks_of_units(yard: Yard, which: str) -> set[str]:
    rows = await yard.world.sql(f"select distinct bank_id from afterturn.agent_memory_unit_t where {which}")
    names = {identity.bank_id(HOST, name): name for name in (*EXPIRING, "default")}
    return {names[row.bank_id] for row in rows}


async def run_twice(yard: Yard, task: str) -> list[tuple[str, str | None]]:
    told = [await yard.maintainer().work(yard.tasks()[task], by_hand=True) for _ in range(2)]
    return [(one.outcome, one.why) for one in told]


@pytest.mark.law("L11")
@pytest.mark.parametrize("error", [StatementTimeout(), ResourceBusy()])
async def test_an_expired_bank_that_cannot_be_ended_keeps_no_other_from_its_end(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    first, end = await expire_banks(yard), ExpiryTask.end

    async def fails(self: ExpiryTask, host: UUID, found: FoundBank) -> int:
        if found.bank_name == first:
            raise error
        return await end(self, host, found)

    monkeypatch.setattr(ExpiryTask, "end", fails)
    busy = isinstance(error, ResourceBusy)
    assert await run_twice(yard, "ending") == [("done", None) if busy else ("failed", "StatementTimeout")] * 2
    assert await banks_of_units(yard, "active") == {first}


@pytest.mark.law("L11")
async def test_an_ended_bank_that_cannot_be_erased_keeps_no_other_of_its_tenant_from_its_erasure(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, request = await expire_banks(yard), Erasures.request
    await yard.by_hand("ending")
    await Crew(yard.world).drain()
    yard.ahead = 60 * DAY

    async def fails(self: Erasures, host: UUID, target: ErasureTarget) -> UUID:
        if target.bank == first:
            raise StatementTimeout
        return await request(self, host, target)

    monkeypatch.setattr(Erasures, "request", fails)
    assert await yard.tasks()["ended"].count() == 4
    assert await run_twice(yard, "ended") == [("failed", "StatementTimeout")] * 2
    assert await banks_of_units(yard, "content <> ''") == {first}
    assert await yard.tasks()["ended"].count() == 1
