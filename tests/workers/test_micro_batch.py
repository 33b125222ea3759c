"""The API embeds what it just accepted while it is quiet, and is the first to give that up."""

import asyncio
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from store.ledger import Stage
from tests.workers.conftest import HOST, World, turn_uuid
from tests.workers.stages import Crew, KnownEmbedder
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
    rung: list[Stage] = field(default_factory=list)

    def batch(self, turns: int = 4, waiting: int = 8) -> MicroBatch:
        stage = EmbeddingStage(self.world.database, self.embedder)
        return MicroBatch(
            self.world.database,
            stage,
            lambda: self.quiet,
            self.rung.append,
            "api",
            turns,
            waiting,
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
    batch = api.batch(turns=2)
    assert batch.offer(HOST, await api.accepted("a", "b", "c"))
    await idle(batch)
    assert await api.count(ROWS) == [("done", 1)] * 3
    assert await api.count(VECTORS) == [(6,)]
    assert [len(texts) for texts in api.embedder.batches] == [4, 2]
    assert await api.count("select stage from afterturn.claim_t") == []
    assert api.rung == []


@pytest.mark.law("L2")
async def test_what_a_worker_holds_or_has_done_is_not_done_twice(world: World) -> None:
    api, crew = Api(world), Crew(world, KnownEmbedder(slow_s=0.2))
    turns = await api.accepted("a", "b")
    batch = api.batch()
    working = asyncio.create_task(crew.runner(Stage.EMBEDDING).drain())
    await crew.embedder.begun.wait()
    assert batch.offer(HOST, turns)
    await idle(batch)
    await working
    assert batch.offer(HOST, turns)
    await idle(batch)
    assert api.embedder.batches == []
    assert await api.count(ROWS) == [("done", 1)] * 2


@pytest.mark.law("L2")
async def test_a_worker_leaves_alone_what_the_api_embeds(world: World) -> None:
    api, crew = Api(world, KnownEmbedder(slow_s=0.2)), Crew(world)
    batch = api.batch()
    batch.offer(HOST, await api.accepted("a"))
    await api.embedder.begun.wait()
    await crew.drain(Stage.EMBEDDING)
    await idle(batch)
    assert crew.embedder.batches == []
    assert await api.count(ROWS) == [("done", 1)]


async def test_more_than_may_wait_is_left_to_the_workers_and_the_rest_for_a_while_too(world: World) -> None:
    api = Api(world)
    batch = api.batch(waiting=2)
    turns = await api.accepted("a", "b", "c")
    assert not batch.offer(HOST, turns)
    assert not batch.offer(HOST, turns[:1])
    api.time += STAND_ASIDE_S
    assert batch.offer(HOST, turns[:1])
    await idle(batch)
    assert await api.count(ROWS) == [("done", 1), ("pending", 0), ("pending", 0)]


async def test_under_load_nothing_is_taken(world: World) -> None:
    api = Api(world, quiet=False)
    assert not api.batch().offer(HOST, await api.accepted("a"))


async def test_an_embedder_that_fails_leaves_the_row_as_it_was_and_rings_for_the_workers(world: World) -> None:
    api = Api(world, KnownEmbedder(poison="Anna"))
    batch = api.batch()
    batch.offer(HOST, await api.accepted("a"))
    await idle(batch)
    assert await api.count(ROWS) == [("pending", 0)]
    assert await api.count("select stage from afterturn.claim_t") == []
    assert api.rung == [Stage.EMBEDDING]
    await Crew(world).drain(Stage.EMBEDDING)
    assert await api.count(ROWS) == [("done", 1)]


async def test_one_batch_runs_at_a_time_and_closing_leaves_what_waits_to_the_workers(world: World) -> None:
    api = Api(world, KnownEmbedder(slow_s=0.1))
    batch = api.batch(turns=1)
    assert batch.offer(HOST, await api.accepted("a", "b", "c"))
    await api.embedder.begun.wait()
    await batch.close()
    assert len(api.embedder.batches) == 1
    assert api.rung == [Stage.EMBEDDING]
    assert await api.count(ROWS) == [("done", 1), ("pending", 0), ("pending", 0)]
    assert not batch.offer(HOST, [turn_uuid("s", "b")])
