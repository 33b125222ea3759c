"""Builds a generation of vectors in a process of its own, as a worker does, while another process recalls."""

import asyncio
import multiprocessing
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle
from multiprocessing.connection import Connection
from pathlib import Path
from uuid import UUID

from sqlalchemy import text

from deploy.lab.bench.measures import Measure, MeasureTarget
from deploy.lab.bench.servers import BenchServers
from deploy.lab.bench.timing import compute_p95_ms
from embeddings.protocol import Embedder
from embeddings.registry import create_embedder
from embeddings.settings import EmbeddingSettings
from store.database import Database
from store.derived.generation_passes import TURNS
from store.derived.generations import ENDED, PassPlace
from store.settings import DatabaseSettings
from workers.generation_passes import GenerationPasses
from workers.settings import WorkerSettings

#: The number of the generation that is built: no model of a deployment has it.
NUMBER = 31_999
#: Seconds between two recalls.
PAUSE_S = 0.1
TEXTS = text("""
    select content from afterturn.agent_memory_unit_t
     where host_id = :host and bank_id = :bank and active and content <> '' order by position""")

Recall = Callable[[str], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class GenerationBuild:
    """What a process needs to build a generation of a bank."""

    servers: BenchServers
    embedding: EmbeddingSettings
    data: Path
    host: UUID
    bank: UUID

    def database(self) -> Database:
        """Return connections of this process."""
        urls = DatabaseSettings(url=self.servers.app_url, operator_url=self.servers.operator_url, pool_size=2)
        return Database(urls)


async def make_live_vectors(database: Database, embedder: Embedder, host: UUID, bank: UUID) -> None:
    """Make the vectors that recall reads."""
    await _build(GenerationPasses(database, lambda _: embedder), embedder.generation, PassPlace(host, bank))


async def read_texts(database: Database, host: UUID, bank: UUID) -> list[str]:
    """Return the texts of a bank's units, in the order of the log."""
    async with database.tenant(host) as connection:
        return list((await connection.execute(TEXTS, {"host": host, "bank": bank})).scalars())


async def measure_build(build: GenerationBuild, recall: Recall, questions: Sequence[str]) -> list[Measure]:
    """Compare the build with the model alone, and the p95 of recall meanwhile with that without one."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_run_process, args=(build, there), daemon=True)
    process.start()
    there.close()
    try:
        alone = await asyncio.to_thread(here.recv)
        quiet = await _time_recalls(recall, questions, lambda: False)
        here.send(None)
        during = await _time_recalls(recall, cycle(questions), here.poll)
        built = await asyncio.to_thread(here.recv)
    finally:
        here.close()
        process.terminate()
        await asyncio.to_thread(process.join)
    target = MeasureTarget("<=", 3.0)
    return [
        Measure("generation_build_over_embedder_alone", "texts/s", built, MeasureTarget(">=", 0.9), alone),
        Measure("recall_p95_during_build", "ms", compute_p95_ms(during), target, compute_p95_ms(quiet)),
    ]


async def _time_recalls(recall: Recall, questions: Iterable[str], has_ended: Callable[[], bool]) -> list[float]:
    """Recall one question after the other, at least one, until that has ended or none is left."""
    took = list[float]()
    for question in questions:
        begun = time.perf_counter()
        await recall(question)
        took.append(time.perf_counter() - begun)
        if has_ended():
            break
        await asyncio.sleep(PAUSE_S)
    return took


def _run_process(build: GenerationBuild, parent: Connection) -> None:
    os.nice(WorkerSettings().nice)
    asyncio.run(_work(build, parent))


async def _work(build: GenerationBuild, parent: Connection) -> None:
    embedder, database = create_embedder(build.embedding, build.data), build.database()
    try:
        await embedder.load()
        parent.send(await _time_embedder(embedder, database, build))
        parent.recv()
        passes = GenerationPasses(database, lambda _: embedder)
        begun = time.perf_counter()
        made = await _build(passes, NUMBER, PassPlace(build.host, build.bank))
        parent.send(made / (time.perf_counter() - begun))
    finally:
        await database.close()
        await embedder.close()


async def _time_embedder(embedder: Embedder, database: Database, build: GenerationBuild) -> float:
    texts = await read_texts(database, build.host, build.bank)
    begun = time.perf_counter()
    for first in range(0, len(texts), TURNS):
        await embedder.embed(texts[first : first + TURNS])
    return len(texts) / (time.perf_counter() - begun)


async def _build(passes: GenerationPasses, number: int, place: PassPlace) -> int:
    vectors = 0
    while place.position != ENDED:
        place, made = await passes.make_vectors(number, place)
        vectors += made
    return vectors
