"""The API embeds what it just accepted while it is quiet, and is the first to give that up."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from store.ledger.ledger import Claim, Ledger
from store.ledger.stages import Stage
from tests.patience import PATIENCE_S
from tests.workers.conftest import HOST, World, turn_uuid
from tests.workers.stages import Crew, KnownEmbedder, held
from workers.embedding import EmbeddingStage
from workers.micro_batch import STAND_ASIDE_S, MicroBatch

ROWS = "select status, attempts from afterturn.ledger_t where stage = 'embedding' order by position"
VECTORS = "select count(*) as n from afterturn.unit_vector_t"


@dataclass
class Api:
    """A process with a model and a micro-batch; `time` is what its clock shows."""

    world: World
    embedder: KnownEmbedder = field(default_factory=KnownEmbedder)
    quiet: bool = True
    time: float = 0.0
    notified: list[Stage] = field(default_factory=list)

    def batch(self, turns: int = 8, characters: int = 4_000) -> MicroBatch:
        stage = EmbeddingStage(self.world.database, self.embedder)
        return MicroBatch(
            self.world.database,
            stage,
            lambda _host: self.quiet,
            self.notified.append,
            "api",
            turns,
            characters,
            clock=lambda: self.time,
        )

    async def accepted(self, *names: str) -> list[UUID]:
        for name in names:
            await self.world.append(turn=name)
        return [turn_uuid("s", name) for name in names]

    async def count(self, query: str) -> Any:
        return [tuple(row) for row in await self.world.sql(query)]


async def idle(batch: MicroBatch) -> None:
    if batch._task is not None:
        await batch._task


async def test_turns_that_were_just_accepted_are_embedded_and_their_rows_done(world: World) -> None:
    api = Api(world)
    batch = api.batch()
    assert batch.offer(HOST, await api.accepted("a", "b", "c"), 100)
    await idle(batch)
    assert await api.count(ROWS) == [("done", 1)] * 3
    assert await api.count(VECTORS) == [(6,)]
    assert [len(texts) for texts in api.embedder.batches] == [6]
    assert await api.count("select stage from afterturn.claim_t") == []
    assert api.notified == []


@pytest.mark.law("L2")
async def test_what_a_worker_holds_or_has_done_is_not_done_twice(world: World) -> None:
    api, crew = Api(world), Crew(world, held())
    turns = await api.accepted("a", "b")
    batch = api.batch()
    working = asyncio.create_task(crew.runner(Stage.EMBEDDING).drain())
    await crew.embedder.begun.wait()
    assert batch.offer(HOST, turns, 100)
    await idle(batch)
    crew.embedder.may_end.set()
    await working
    assert batch.offer(HOST, turns, 100)
    await idle(batch)
    assert api.embedder.batches == []
    assert await api.count(ROWS) == [("done", 1)] * 2


@pytest.mark.law("L2")
async def test_a_worker_leaves_alone_what_the_api_embeds(world: World) -> None:
    api, crew = Api(world, held()), Crew(world)
    batch = api.batch()
    batch.offer(HOST, await api.accepted("a"), 100)
    await api.embedder.begun.wait()
    await crew.drain(Stage.EMBEDDING)
    api.embedder.may_end.set()
    await idle(batch)
    assert crew.embedder.batches == []
    assert await api.count(ROWS) == [("done", 1)]


async def test_what_comes_while_a_batch_runs_is_left_to_the_workers_and_all_else_for_a_while_too(world: World) -> None:
    api = Api(world, held())
    batch = api.batch()
    turns = await api.accepted("a", "b", "c")
    assert batch.offer(HOST, turns[:1], 100)
    assert not batch.offer(HOST, turns[1:2], 100)
    api.embedder.may_end.set()
    await idle(batch)
    assert not batch.offer(HOST, turns[1:2], 100)
    api.time += STAND_ASIDE_S
    assert batch.offer(HOST, turns[1:2], 100)
    await idle(batch)
    assert await api.count(ROWS) == [("done", 1), ("done", 1), ("pending", 0)]


async def test_what_is_large_is_left_to_the_workers(world: World) -> None:
    api = Api(world)
    turns = await api.accepted("a", "b")
    assert not api.batch(turns=1).offer(HOST, turns, 100)
    assert not api.batch(characters=99).offer(HOST, turns, 100)
    assert await api.count(ROWS) == [("pending", 0)] * 2


async def test_under_load_nothing_is_taken(world: World) -> None:
    api = Api(world, quiet=False)
    assert not api.batch().offer(HOST, await api.accepted("a"), 100)


async def test_an_embedder_that_fails_leaves_the_row_as_it_was_and_rings_for_the_workers(world: World) -> None:
    api = Api(world, KnownEmbedder(poison="Anna"))
    batch = api.batch()
    batch.offer(HOST, await api.accepted("a"), 100)
    await idle(batch)
    assert await api.count(ROWS) == [("pending", 0)]
    assert await api.count("select stage from afterturn.claim_t") == []
    assert api.notified == [Stage.EMBEDDING]
    await Crew(world).drain(Stage.EMBEDDING)
    assert await api.count(ROWS) == [("done", 1)]


async def test_what_an_outage_of_the_database_interrupts_is_given_back_when_that_is_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Restarted(Ledger):
        refused = 0

        async def release(self, claims: Iterable[Claim], wait: timedelta | None = None) -> None:
            if Restarted.refused < 2:
                Restarted.refused += 1
                raise ConnectionRefusedError
            await super().release(claims, wait)

    monkeypatch.setattr("workers.micro_batch.Ledger", Restarted)
    api = Api(world, KnownEmbedder(poison="Anna"))
    batch = api.batch()
    batch.pause_s = 0.0
    batch.offer(HOST, await api.accepted("a"), 100)
    await idle(batch)
    assert await api.count(ROWS) == [("pending", 0)]
    assert await api.count("select stage from afterturn.claim_t") == []


async def test_closing_lets_the_batch_end_that_runs_and_takes_nothing_more(world: World) -> None:
    api = Api(world, held())
    batch = api.batch()
    assert batch.offer(HOST, await api.accepted("a"), 100)
    closing = asyncio.create_task(batch.close(PATIENCE_S))
    await api.embedder.begun.wait()
    api.embedder.may_end.set()
    await closing
    assert await api.count(ROWS) == [("done", 1)]
    assert not batch.offer(HOST, await api.accepted("b"), 100)


async def test_closing_cuts_a_batch_that_takes_too_long_and_gives_its_turns_back(world: World) -> None:
    api = Api(world, held())
    batch = api.batch()
    assert batch.offer(HOST, await api.accepted("a"), 100)
    await api.embedder.begun.wait()
    closing = asyncio.create_task(batch.close(0.0))
    with suppress(asyncio.CancelledError):
        await idle(batch)
    await closing
    assert await api.count(ROWS) == [("pending", 0)]
    assert await api.count("select stage from afterturn.claim_t") == []
