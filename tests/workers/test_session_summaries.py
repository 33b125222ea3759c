"""The stage after a turn summarises a session that has become long: once, wherever it is killed."""

from typing import Any

import pytest

from producers.service.session_summaries import Summarised, Summariser
from store import identity
from store.ledger.stages import Stage
from store.memory.session_summaries import SessionPlace, SessionSummaries, SummaryLimits
from store.memory.turns import NewMessage
from tests.workers.conftest import BANK, HOST, START, World
from tests.workers.stages import Crew

SESSION = identity.session_id(BANK, "s")
PLACE = SessionPlace(HOST, BANK, SESSION)
COMPACTED = """
    select cast(data->>'keptFrom' as int), cast(data as text) from afterturn.event_store_t
     where event_type = 'AgentSessionHistoryCompactedEvent' order by position"""


def summariser_of(world: World, items: int = 4) -> Summariser:
    limits = SummaryLimits(items)
    return Summariser(world.turns.summaries, world.turns.sessions, lambda _host, _bank: limits)


async def talk(world: World, first: int, turns: int = 1) -> None:
    for n in range(first, first + turns):
        messages = [
            NewMessage("user", f"We decided on plan {n} for Anna.", occurred_at=START),
            NewMessage("assistant", f"Noted as number {n}.", occurred_at=START),
        ]
        await world.append("s", f"t{n}", messages=messages)


async def test_the_stage_after_a_turn_summarises_a_long_session_and_not_a_short_one(world: World) -> None:
    crew = Crew(world, summariser=summariser_of(world))
    await talk(world, 0, 4)
    await crew.drain()
    assert await world.statuses(Stage.ENRICHMENT) == []
    await talk(world, 4)
    await crew.drain(Stage.EXTRACTION)
    assert await world.statuses(Stage.ENRICHMENT) == ["pending"]
    assert Stage.ENRICHMENT in crew.notified
    await crew.drain()
    assert await world.statuses(Stage.ENRICHMENT) == ["done"]
    [(kept_from, data)] = await world.sql(COMPACTED)
    assert (kept_from, "plan 2 for Anna" in data, "plan 3" in data) == (6, True, False)
    # Eight more messages, and the summary takes in what the first one told.
    await talk(world, 5, 4)
    await crew.drain()
    [_, (kept_from, data)] = await world.sql(COMPACTED)
    assert kept_from > 6
    assert "plan 0 for Anna" in data


@pytest.mark.law("L2")
@pytest.mark.parametrize("when", ["before it is written", "after it is written"])
async def test_killed_at_each_step_the_summary_is_written_once(
    world: World, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    crew = Crew(world, summariser=summariser_of(world))
    await talk(world, 0, 5)
    await crew.drain(Stage.EXTRACTION)
    write, killed = SessionSummaries.write, list[int]()

    async def die(self: SessionSummaries, *told: Any) -> bool:
        if when == "after it is written":
            assert await write(self, *told)
        if not killed:
            killed.append(1)
            raise RuntimeError("killed")
        return True

    with monkeypatch.context() as patch:
        patch.setattr(SessionSummaries, "write", die)
        await crew.drain(Stage.ENRICHMENT)
    assert killed
    await world.forget_backoff()
    await crew.drain(Stage.ENRICHMENT)
    assert await world.statuses(Stage.ENRICHMENT) == ["done"]
    [(kept_from, data)] = await world.sql(COMPACTED)
    assert (kept_from, data.count("We decided")) == (6, 3)
    assert await summariser_of(world).summarise(PLACE) == Summarised(0, 0)


async def test_a_session_whose_summary_an_erasure_took_is_due_again(world: World) -> None:
    await talk(world, 0, 5)
    summariser = summariser_of(world)
    assert await summariser.summarise(PLACE) == Summarised(6, 0)
    await world.sql("update afterturn.session_message_t set message = '{\"erased\": true}'")
    assert await world.turns.summaries.find_due(HOST, BANK, [SESSION], SummaryLimits(4)) == [SESSION]
    assert await summariser.summarise(PLACE) == Summarised(6, 0)
    assert len(await world.sql(COMPACTED)) == 2
    assert await summariser.summarise(PLACE) == Summarised(0, 0)


async def test_a_summary_is_given_up_in_time_and_nothing_is_written(world: World) -> None:
    await talk(world, 0, 5)
    assert await summariser_of(world).summarise(PLACE, until=0.0) == Summarised(0, 6)
    assert await world.sql(COMPACTED) == []
