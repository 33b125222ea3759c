"""Of equal facts of one person and bank one holds; maintenance writes by which each of the others is consolidated."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.erasure import Erasures, ErasureTarget, Kind
from store.log.append import append_events as append
from store.maintenance import Consolidation, consolidation
from store.memory.session_history import SessionHistory, WantedFacts
from store.memory.turns import Appended, NewMessage, NewTurn
from store.memory.units import Units
from store.replay import verify_log
from tests.workers.conftest import BANK, HOST
from tests.workers.maintenance.conftest import Yard
from tests.workers.stages import Crew

LINKS = """
    select from_unit_id, to_unit_id from afterturn.agent_memory_link_t
     where link_type = 'semantic' and active and to_unit_id in (select unit_id from afterturn.fact_t)"""
EVENTS = """
    select count(*) from afterturn.event_store_t e
     where e.event_type = 'AgentMemoryLinkCreatedEvent' and e.data->>'linkType' = 'semantic'
       and cast(e.data->>'toUnitId' as uuid) in (
           select unit_id from afterturn.agent_memory_unit_t where origin = 'extraction')"""
MESSAGE = "select unit_id from afterturn.agent_memory_unit_t where turn_name = :turn and origin = 'message'"
FACTS = """
    select f.unit_id, f.value, f.consolidated_by, u.turn_name from afterturn.fact_t f
      join afterturn.agent_memory_unit_t u using (host_id, bank_id, unit_id) order by f.position"""


async def say(yard: Yard, *said: str, session: str = "s", user: str = "ann", first: int = 0) -> None:
    """Say each sentence in a turn of its own, named by session and number."""
    for nth, words in enumerate(said, first):
        turn = NewTurn("default", session, f"{session}{nth}", [NewMessage("user", words)], user_id=user)
        assert isinstance((await yard.world.turns.append(HOST, [turn]))[0], Appended)


async def held(yard: Yard, session: str | None = None) -> list[str]:
    history = SessionHistory(yard.world.database, yard.clock)
    wanted = WantedFacts(50, "ann")
    if session is not None:
        found = await history.recent_and_holding(HOST, "default", session, 1, wanted, within=True)
        return sorted(one.value for one in found.facts)
    return sorted(one.value for one in await history.holding(HOST, "default", wanted, "another"))


async def states(yard: Yard) -> dict[str, tuple[str | None, UUID | None]]:
    """Return state and reason of each fact by the name of its turn."""
    units = Units(yard.world.database, yard.clock)
    rows = await yard.world.sql(FACTS)
    shown = {row.turn_name: await units.get(HOST, "default", row.unit_id) for row in rows}
    return {turn: (one.state, one.state_by) for turn, one in shown.items()}


async def unit_of(yard: Yard, turn: str) -> UUID:
    [unit] = [row.unit_id for row in await yard.world.sql(FACTS) if row.turn_name == turn]
    assert isinstance(unit, UUID)
    return unit


async def consolidated(yard: Yard) -> int:
    """Run the task as an operator would; returns how many facts it linked."""
    before = (await yard.world.sql(EVENTS))[0][0]
    assert await yard.by_hand("consolidation") == 0, "nothing is removed"
    return int((await yard.world.sql(EVENTS))[0][0]) - int(before)


async def see_equal(yard: Yard) -> None:
    report = await verify_log(yard.world.postgres.owner_url)
    assert report.equal
    assert [one.name for one in report.derived if not one.equal and one.name != "vectors"] == []


async def test_what_is_said_again_is_told_once_in_the_project_and_in_each_session(yard: Yard) -> None:
    await say(yard, "I like jazz.", "I like jazz.", "I like tea.", session="a")
    await say(yard, "I like jazz.", session="b")
    await Crew(yard.world).drain()
    assert await held(yard) == ["jazz", "tea"]
    assert (await held(yard, "a"), await held(yard, "b")) == (["jazz", "tea"], ["jazz"])


async def test_equal_facts_of_two_people_or_of_two_banks_are_not_one(yard: Yard) -> None:
    await say(yard, "I like jazz.")
    await say(yard, "I like jazz.", session="b", user="bo")
    turn = NewTurn("other", "s", "t", [NewMessage("user", "I like jazz.")], user_id="ann")
    await yard.world.turns.append(HOST, [turn])
    await Crew(yard.world).drain()
    assert [row.consolidated_by for row in await yard.world.sql(FACTS)] == [None] * 3
    assert await consolidated(yard) == 0


@pytest.mark.law("L5")
async def test_each_equal_fact_but_the_newest_is_consolidated_and_the_log_says_by_which(yard: Yard) -> None:
    await say(yard, "I like jazz.", "I like jazz.", "I like jazz.", "I live in Ghent.", "I live in Porto.")
    await Crew(yard.world).drain()
    ids = {turn: await unit_of(yard, turn) for turn in ("s0", "s1", "s2", "s4")}
    assert await yard.tasks()["consolidation"].count() == 2
    assert await consolidated(yard) == 2
    assert await yard.tasks()["consolidation"].count() == 0
    linked = {(row.from_unit_id, row.to_unit_id) for row in await yard.world.sql(LINKS)}
    assert linked == {(ids["s0"], ids["s1"]), (ids["s1"], ids["s2"])}
    assert await states(yard) == {
        "s0": ("consolidated", ids["s2"]),
        "s1": ("consolidated", ids["s2"]),
        "s2": ("active", None),
        "s3": ("superseded", ids["s4"]),
        "s4": ("active", None),
    }
    await see_equal(yard)
    # Another value ends them all, and a new statement of the first one consolidates nothing before that.
    await say(yard, "I do not like jazz.", "I like jazz.", first=5)
    await Crew(yard.world).drain()
    assert {row.consolidated_by for row in await yard.world.sql(FACTS)} == {None}
    assert await consolidated(yard) == 0
    assert {(await states(yard))[turn][0] for turn in ("s0", "s1", "s2")} == {"contradicted"}
    await see_equal(yard)


@pytest.mark.law("L11")
@pytest.mark.parametrize("how", ["forgotten", "erased"])
@pytest.mark.parametrize("turn", ["b0", "b1", "b2"])
async def test_what_the_others_still_say_holds_when_one_of_them_is_gone(yard: Yard, how: str, turn: str) -> None:
    await say(yard, "I like jazz.", "I like jazz.", "I like jazz.", session="b")
    await Crew(yard.world).drain()
    assert await consolidated(yard) == 2
    if how == "forgotten":
        await Units(yard.world.database, yard.clock).forget(HOST, "default", await unit_of(yard, turn))
    else:
        erasures = Erasures(yard.world.database, yard.clock)
        [message] = await yard.world.sql(MESSAGE, turn=turn)
        erasure = await erasures.request(HOST, ErasureTarget(Kind.UNIT, "default", str(message.unit_id)))
        assert (await erasures.run(HOST, erasure)).done
    # At once, before a worker has seen it: what is left may be told twice, and never not at all.
    assert set(await held(yard)) == {"jazz"}
    await Crew(yard.world).drain()
    assert await held(yard) == ["jazz"]
    left = sorted({"b0", "b1", "b2"} - {turn})
    newest = await unit_of(yard, left[1])
    assert await states(yard) == {left[0]: ("consolidated", newest), left[1]: ("active", None)}
    await consolidated(yard)
    linked = {(row.from_unit_id, row.to_unit_id) for row in await yard.world.sql(LINKS)}
    assert linked == {(await unit_of(yard, left[0]), newest)}
    await see_equal(yard)


@pytest.mark.law("L2")
@pytest.mark.parametrize("when", ["before the events", "after the events"])
async def test_killed_at_each_step_and_done_by_two_at_once_each_is_linked_once(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    await say(yard, *["I like jazz."] * 6)
    await Crew(yard.world).drain()
    steps = list[int]()
    monkeypatch.setattr(consolidation, "FACTS", 2)
    monkeypatch.setattr(consolidation, "NEXT_FACTS", consolidation.NEXT_FACTS.limit(2))

    async def die(connection: AsyncConnection, host: UUID, events: Sequence[Any]) -> int | None:
        steps.append(len(events))
        position = await append(connection, host, events) if when == "after the events" else None
        if len(steps) % 2:
            raise RuntimeError("killed")
        return position if position is not None else await append(connection, host, events)

    monkeypatch.setattr(consolidation, "append_events", die)
    linker = Consolidation(yard.world.database, yard.clock)
    done = 0
    for _ in range(6):
        try:
            done += await linker.consolidate(HOST, BANK)
        except RuntimeError:
            assert (await yard.world.sql(EVENTS))[0][0] == done, "what was killed has written nothing"
    assert (done, steps) == (5, [2, 2, 2, 2, 1, 1])
    monkeypatch.setattr(consolidation, "append_events", append)
    await say(yard, *["I like jazz."] * 4, first=6)
    await Crew(yard.world).drain()
    both = await asyncio.gather(*(linker.consolidate(HOST, BANK) for _ in range(4)))
    while await linker.consolidate(HOST, BANK):
        pass
    assert sum(both) <= 8
    assert (await yard.world.sql(EVENTS))[0][0] == 9
    assert await yard.tasks()["consolidation"].count() == 0
    await see_equal(yard)


async def test_a_session_of_many_repetitions_is_linked_in_short_transactions(yard: Yard) -> None:
    await say(yard, *["I like jazz."] * 5)
    await Crew(yard.world).drain()
    assert yard.tasks(sessions="tool")["consolidation"].off == "maintenance.sessions is not `periodic`"
    assert await Consolidation(yard.world.database, yard.clock).count(identity.host_id("nobody")) == 0
    assert await consolidated(yard) == 4
    assert await consolidated(yard) == 0
