"""A question that asks for facts finds those of turns that no worker has read, as it finds them afterwards (law L4)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import astuple, replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from afterturn_client.contract.lists import ListedUnit

from store.derived.said_facts import read_said_facts
from store.errors import NotFound, TurnBusy
from store.ledger.stages import Stage
from store.memory import session_history
from store.memory.listings import Listings
from store.memory.session_history import SessionHistory, WantedFacts
from store.memory.units import Units
from store.recall.query import Recalled, RecallQuery
from store.recall.recaller import Recaller
from store.recall.settings import RecallSettings
from tests.workers.conftest import HOST, START, World, dialogue, now
from tests.workers.stages import Crew, KnownEmbedder
from tests.workers.test_insights import say

SAID = "My name is Ann Moore. I prefer window seats."


async def recalled(world: World, asked: str = "name: Ann, window seats", **more: Any) -> Sequence[Recalled]:
    recaller = Recaller(world.database, KnownEmbedder(), RecallSettings())
    return (await recaller.recall(HOST, RecallQuery("default", asked, **{"k": 50, "kinds": ["world"], **more}))).items


def ids(found: Sequence[Recalled]) -> list[str]:
    return sorted(str(one.unit_id) for one in found)


@pytest.mark.law("L4")
async def test_facts_are_found_before_a_worker_ran_and_as_the_same_units_after_it(world: World) -> None:
    await world.append("s", "t", messages=dialogue(SAID, "I see."))
    early = await recalled(world)
    assert [(one.kind, one.session_name, one.turn_name, one.role) for one in early] == [("world", "s", "t", None)] * 2
    assert all("lexical" in one.arms for one in early)
    one = await Units(world.database, now).get(HOST, "default", early[0].unit_id)
    crew = Crew(world)
    await crew.drain()
    late = await recalled(world)
    assert ids(late) == ids(early)
    told = {one.unit_id: (one.text, one.confidence, one.turn_names, one.occurred_at) for one in late}
    assert {one.unit_id: (one.text, one.confidence, one.turn_names, one.occurred_at) for one in early} == told
    after = await Units(world.database, now).get(HOST, "default", one.unit_id)
    same = ("unit_id", "kind", "text", "origin", "session_id", "turn_id", "occurred_at", "metadata", "sources")
    assert [getattr(one, name) for name in same] == [getattr(after, name) for name in same]


@pytest.mark.law("L4")
async def test_at_every_stage_the_same_facts_hold_in_another_session_and_none_twice(world: World) -> None:
    history, crew = SessionHistory(world.database, now), Crew(world)
    await world.append("s", "t", messages=dialogue(SAID, "I see."))
    held, found = await history.holding(HOST, "default", WantedFacts(50), "another"), ids(await recalled(world))
    assert sorted((one.fact_id, one.value) for one in held) == [
        ("user_name", "Ann Moore"),
        ("user_preference", "window seats"),
    ]
    for stage in (Stage.EXTRACTION, Stage.PROJECTION, Stage.EMBEDDING):
        await crew.drain(stage)
        assert await history.holding(HOST, "default", WantedFacts(50), "another") == held, stage
        assert ids(await recalled(world)) == found, stage


@pytest.mark.law("L4")
async def test_facts_that_are_put_in_line_while_a_session_is_read_are_told_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    history, crew = SessionHistory(world.database, now), Crew(world)
    await world.append("s", "t", messages=dialogue(SAID, "I see."))
    drained = list[object]()

    def draining(read: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def read_and_drain(connection: object, statement: object, *more: Any, **named: Any) -> Any:
            found = await read(connection, statement, *more, **named)
            if statement is not session_history.RECENT and not drained:
                drained.append(statement)
                await crew.drain()
            return found

        return read_and_drain

    for name in ("fetch_rows", "read_said_facts"):
        monkeypatch.setattr(session_history, name, draining(getattr(session_history, name)))
    held = (await history.recent_and_holding(HOST, "default", "s", 10, WantedFacts(50), within=False)).facts
    assert drained
    assert [(one.fact_id, one.value) for one in held] == [
        ("user_name", "Ann Moore"),
        ("user_preference", "window seats"),
    ]


async def test_what_waits_is_read_with_a_session_only_where_something_does(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    history, crew, asked = SessionHistory(world.database, now), Crew(world), list[int]()

    async def read(*arguments: Any, **named: Any) -> Any:
        asked.append(1)
        return await read_said_facts(*arguments, **named)

    monkeypatch.setattr(session_history, "read_said_facts", read)
    await world.append("s", "t", messages=dialogue(SAID, "I see."))
    early = await history.recent_and_holding(HOST, "default", "s", 10, WantedFacts(50), within=False)
    assert len(asked) == 1
    await crew.drain()
    assert await history.recent_and_holding(HOST, "default", "s", 10, WantedFacts(50), within=False) == early
    assert len(asked) == 1
    await history.recent_and_holding(HOST, "default", "a new one", 10, WantedFacts(50), within=False)
    assert len(asked) == 2, "a session without messages tells nothing of what waits"


@pytest.mark.law("L4")
@pytest.mark.parametrize("limit", [1, 2, 10])
async def test_at_every_stage_a_list_shows_the_same_units_page_by_page(world: World, limit: int) -> None:
    listings, crew = Listings(world.database, now), Crew(world)

    async def listed() -> list[tuple[Any, ...]]:
        """Read the list to its end; what changes by a worker is the position alone."""
        rows: list[ListedUnit] = []
        while page := await listings.units(HOST, "default", rows[-1].unit_id if rows else None, limit):
            assert len(page) <= limit
            rows += page
        return [astuple(replace(row, position=0)) for row in rows]

    await world.append("s", "t", messages=dialogue(SAID, "I see."))
    first = await listed()
    assert len(first) == 4
    assert [row[0] for row in first] == sorted({row[0] for row in first})
    for stage in (Stage.EXTRACTION, Stage.PROJECTION):
        await crew.drain(stage)
        assert await listed() == first, stage
    assert await listings.units(HOST, "other", None, limit) == []


async def test_a_fact_is_found_in_its_message_where_that_is_asked_for_too(world: World) -> None:
    await world.append("s", "t", messages=dialogue(SAID, "I see."))
    assert {one.kind for one in await recalled(world, kinds=["world", "experience"])} == {"experience"}


async def test_what_was_just_said_replaces_what_a_worker_wrote_and_its_own_earlier_words(world: World) -> None:
    await say(world, "I live in Porto.")
    await world.append("s", "t1", messages=dialogue("I moved to Lisbon.", "I see."))
    await world.append("s", "t2", messages=dialogue("I moved to Ghent.", "I see."))
    assert [one.turn_name for one in await recalled(world, "Porto Lisbon Ghent")] == ["t2"]
    await Crew(world).drain()
    assert [one.turn_name for one in await recalled(world, "Porto Lisbon Ghent")] == ["t2"]


@pytest.mark.parametrize(
    "filters, finds",
    [
        ({"session_name": "s", "only_session": True}, 2),
        ({"session_name": "s", "exclude_session": True}, 0),
        ({"sessions": ["other"]}, 0),
        ({"metadata": {"fact_id": "user_name"}}, 1),
        ({"roles": ["user"]}, 0),
        ({"tags": ["x"]}, 0),
        ({"begin": START - timedelta(days=1), "end": START + timedelta(days=400)}, 2),
        ({"end": START - timedelta(days=1)}, 0),
        ({"as_of": START - timedelta(days=1)}, 0),
        ({"known_at": START - timedelta(days=1)}, 0),
        ({"kinds": ["opinion"]}, 0),
    ],
)
async def test_the_filters_of_a_question_hold_before_a_worker_ran_as_after(
    world: World, filters: dict[str, Any], finds: int
) -> None:
    await world.append("s", "t", messages=dialogue(SAID, "I see."))
    early = await recalled(world, **filters)
    assert len(early) == finds
    await Crew(world).drain()
    assert ids(await recalled(world, **filters)) == ids(early)


async def test_a_fact_that_waits_is_busy_for_who_changes_it_and_is_changed_once_it_is_written(world: World) -> None:
    units = Units(world.database, now)
    await world.append("s", "t", messages=dialogue("My name is Ann Moore.", "I see."))
    [fact] = [one.unit_id for one in await recalled(world)]
    for change in (
        units.forget(HOST, "default", fact),
        units.correct(HOST, "default", fact, "The user's name is Anna."),
        units.pin(HOST, "default", fact, pinned=True),
        units.authors(HOST, "default", [fact]),
    ):
        with pytest.raises(TurnBusy, match="try again"):
            await change
    with pytest.raises(NotFound):
        await units.forget(HOST, "default", uuid4())
    await Crew(world).drain()
    await units.forget(HOST, "default", fact)
    assert list(await recalled(world)) == []
