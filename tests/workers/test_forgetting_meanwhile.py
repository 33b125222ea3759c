"""Forgetting while others write about the same: whatever order they come in, the log says what the tables say."""

import asyncio
from collections.abc import Awaitable
from typing import Any
from uuid import UUID

import pytest

from store import identity, off_loop
from store.ledger import ledger
from store.ledger.stages import Stage
from store.log import append
from store.log.catalog import EventType
from store.log.envelope import Origin
from store.memory import commanded, directives, offered_turns, turn_writes
from store.memory.directives import NewLink
from store.memory.documents import Documents, NewDocument, content_hash
from store.memory.turns import NewTurn
from store.memory.units import Units
from store.replay import verify_log
from tests.patience import BLOCKED, until
from tests.workers.conftest import BANK, HOST, World, dialogue, now
from tests.workers.stages import Crew
from workers import embedding
from workers.extraction import stage as extraction


async def goes_on(world: World, doing: Awaitable[Any]) -> asyncio.Task[Any]:
    """Begin something; returns when it has ended or waits for somebody."""
    task = asyncio.ensure_future(doing)

    async def ended_or_waits() -> bool:
        return task.done() or bool((await world.sql(BLOCKED))[0][0])

    await until(ended_or_waits, "it ended, or waits")
    return task


async def same_as_replayed(world: World) -> None:
    await Crew(world).drain()
    report = await verify_log(world.postgres.owner_url)
    assert [table.first_differences for table in report.tables if not table.equal] == []
    assert [one.name for one in report.derived if not one.equal] == []


async def messages(world: World) -> list[UUID]:
    rows = await world.sql("select unit_id from afterturn.agent_memory_unit_t where origin = 'message' order by seq")
    return [row.unit_id for row in rows]


async def test_a_unit_forgotten_while_it_is_being_linked_takes_the_link_along(world: World) -> None:
    await world.append()
    first, second = await messages(world)
    async with world.database.tenant(HOST) as connection:
        origin = Origin(HOST, BANK, identity.user_id(HOST, None), now())
        await commanded.lock_bank(connection, origin)
        link = NewLink(first, second, "causes")
        data = {"fromUnitId": str(first), "toUnitId": str(second), "linkType": link.kind, "weight": link.weight}
        await directives._append_next_version(
            connection, origin, EventType.LINK_CREATED, data, (first, second, link.kind)
        )
        forgetting = await goes_on(world, Units(world.database, now).forget(HOST, "default", first))
    await forgetting
    assert await world.sql("select 1 from afterturn.agent_memory_link_t where active") == []
    await same_as_replayed(world)


async def test_a_unit_forgotten_while_its_names_are_written_is_named_by_nobody(world: World) -> None:
    await world.append(messages=dialogue("Karl Berger met Ann Moore in Kyoto.", "I see."))
    first, _ = await messages(world)
    wrote: list[asyncio.Task[Any]] = []
    append_events = append.append_events

    async def forgotten_meanwhile(*arguments: Any, **more: Any) -> object:
        """Forget when the mentions are written and not there for others yet."""
        position = await append_events(*arguments, **more)
        wrote.append(await goes_on(world, Units(world.database, now).forget(HOST, "default", first)))
        return position

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(extraction, "append_events", forgotten_meanwhile)
        await Crew(world).drain(Stage.EXTRACTION)
    await asyncio.gather(*wrote)
    assert wrote
    named = "select 1 from afterturn.agent_memory_unit_entity_t where unit_id = :unit and removed_at is null"
    assert await world.sql(named, unit=first) == []
    await same_as_replayed(world)


async def test_a_document_forgotten_while_a_turn_of_it_comes_takes_the_turn_along(world: World) -> None:
    await world.append()
    documents = Documents(world.database, now)
    doc = (await documents.register(HOST, NewDocument("default", content_hash(b"a file")))).doc_id
    turn = NewTurn("default", "s", "of the file", dialogue(), doc_id=doc)
    offered = off_loop.run_steps(
        offered_turns.build_offered_turns(HOST, [turn], now(), offered_turns.OfferContext(b"", (), {}))
    )
    async with world.database.tenant(HOST) as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection
        await driver.fetch(turn_writes.APPEND, *turn_writes.append_arguments(HOST, offered, wait=True))
        forgetting = await goes_on(world, documents.forget(HOST, "default", doc))
    await forgetting
    assert await world.sql("select 1 from afterturn.agent_memory_unit_t where active and doc_id is not null") == []
    await same_as_replayed(world)


async def test_facts_go_with_what_they_are_being_drawn_from(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.append(messages=dialogue("My name is Karl and I live in Porto.", "I see."))
    first, answer = await messages(world)
    derive, loop = extraction._derive_all, asyncio.get_running_loop()
    forgetting = [Units(world.database, now).forget(HOST, "default", first, with_facts=True)]

    def forgotten_meanwhile(*arguments: Any, **named: Any) -> object:
        """Forget while the words are in hand, before anything of them is written."""
        found = derive(*arguments, **named)
        if forgetting:
            asyncio.run_coroutine_threadsafe(forgetting.pop(), loop).result(30)
        return found

    monkeypatch.setattr(extraction, "_derive_all", forgotten_meanwhile)
    await Crew(world).drain()
    living = await world.sql("select unit_id from afterturn.agent_memory_unit_t where active")
    assert [row.unit_id for row in living] == [answer]
    await same_as_replayed(world)


async def test_a_unit_is_forgotten_while_its_vector_is_written(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.append()
    first, _ = await messages(world)
    close, forgetting = ledger.close_claims, list[asyncio.Task[Any]]()

    async def forgotten_meanwhile(*arguments: Any) -> Any:
        """Forget when the vectors are written and the claim is still to be closed."""
        units = Units(world.database, now)
        forgetting.append(await goes_on(world, units.forget(HOST, "default", first, with_facts=True)))
        return await close(*arguments)

    monkeypatch.setattr(embedding, "close_claims", forgotten_meanwhile)
    await Crew(world).drain(Stage.EMBEDDING)
    await asyncio.gather(*forgetting)
    monkeypatch.undo()
    assert await world.statuses(Stage.EMBEDDING) == ["done"]
    assert await world.sql("select 1 from afterturn.unit_vector_t where unit_id = :unit", unit=first) == []
    await same_as_replayed(world)
