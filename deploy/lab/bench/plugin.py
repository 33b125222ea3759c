"""`afterturn bench plugin`: measures the memory plugin over HTTP beside its floors, on one server in one run.

The floor of a write is the same rows written without logic; that of a search is the embedding of its text and the two
statements by words and by vector. Calls go to the API's own port, with a key, while the stack's workers are running.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import cycle, islice
from typing import Any
from uuid import UUID, uuid4

import httpx
from sqlalchemy import text

from deploy.lab.bench.bench_database import BenchDatabase, open_bench_database
from deploy.lab.bench.measures import BenchOutcome, Measure, MeasureTarget
from deploy.lab.bench.recall.asking import BenchQuestion, NothingRecalled, RecallProbe
from deploy.lab.bench.recall.filling import BankFiller, Phrases
from deploy.lab.bench.recall.speed import RecallServers, servers, split_lanes
from deploy.lab.bench.row_floor import read_transaction_mark, time_bare_writes
from deploy.lab.bench.timing import Action, compute_p50_ms, compute_p95_ms, run_lanes
from deploy.lab.demo.data import load_demo
from deploy.notices import Say
from embeddings.protocol import Embedder
from embeddings.registry import create_embedder
from producers.settings import PluginSettings
from store import identity
from store.clock import read_machine_time
from store.derived.vector_indexes import VectorIndexes
from store.plugin.memories import name_memory
from store.plugin.search import PluginSearch, SearchQuery

__all__ = ["FULL", "PluginSizes", "run", "servers"]

CLIENTS = 16
#: Database connections for the floors.
CONNECTIONS = 8
FIRST, THREE, LARGE, WRITTEN = "workspace:first", ("workspace:first", "team:second", "org:third"), "org:large", "team:w"
#: Writes by 16 clients that are not counted, to warm up connections and the workers' model.
WARMING = 4 * CLIENTS
#: Longest wait until the workers have processed the writes, and the pause between two checks, in seconds.
SETTLED_S, POLL_S = 30.0, 0.1
#: The kind of one memory in a thousand, and the least number of such memories.
RARE, RARE_EVERY, RARE_AT_LEAST = "checkpoint", 1000, 20
#: Number of best results compared with an exact search, and the tolerance of scores: the order of a sum matters.
BEST, TOLERANCE = 10, 1e-4

# Turns filled units into memories of the plugin, with their own ids.
MARK = text("""
    update afterturn.agent_memory_unit_t set origin = 'memory', mentioned_at = event_date,
           metadata = jsonb_build_object('plugin', jsonb_build_object('id', unit_id, 'source', 'agent', 'kind',
               case when position % :every = 0 then cast(:rare as text) else 'fact' end))
     where host_id = :host and bank_id = :bank""")

UNDONE = text("select exists (select from afterturn.ledger_t l where l.host_id = :host and l.undone)")

Ask = Callable[[BenchQuestion], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class PluginSizes:
    """The size of a run: memories in each of three namespaces and in a large one (0: none), calls by 1 and 16 clients.

    `checked` filtered searches are compared with exact ones.
    """

    units: int = 10_000
    large: int = 0
    rounds: int = 60
    crowd: int = 480
    checked: int = 20


FULL = PluginSizes(large=200_000, rounds=200, crowd=1_600)


async def run(on: RecallServers, say: Say, sizes: PluginSizes) -> BenchOutcome:
    """Fill namespaces, run every measurement, and remove all data afterwards."""
    async with open_bench_database(on.servers) as here, _open_bench(on, here, say, sizes) as bench:
        return BenchOutcome(await here.read_machine(), await bench.run(), asdict(sizes))


@asynccontextmanager
async def _open_bench(
    on: RecallServers, here: BenchDatabase, say: Say, sizes: PluginSizes
) -> "AsyncGenerator[PluginBench]":
    embedder, database = create_embedder(on.embedding, on.data), here.database(CONNECTIONS)
    try:
        await embedder.load()
        key = await here.new_key(database)
        filler = BankFiller(here.owner, here.newest_host, await Phrases.read(embedder))
        floor = RecallProbe(database, embedder, on.recall, here.newest_host)
        headers = {"authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=on.api or "", headers=headers, timeout=60.0, trust_env=False) as client:
            yield PluginBench(on, here, PluginEndpoint(client), filler, floor, embedder, say, sizes)
    finally:
        await embedder.close()
        await database.close()


@dataclass(frozen=True, slots=True)
class PluginEndpoint:
    """A client of the plugin's routes that are timed."""

    client: httpx.AsyncClient

    async def make(self, name: str) -> None:
        """Create a namespace."""
        (await self.client.put(f"/v1/namespaces/{name}", json={"kind": "custom"})).raise_for_status()

    async def write(self, memory_id: UUID, content: str) -> None:
        """Write a memory."""
        body = {"id": str(memory_id), "content": content, "kind": "fact", "source": "agent"}
        (await self.client.post(f"/v1/namespaces/{WRITTEN}/memories", json=body)).raise_for_status()

    async def search(self, names: Sequence[str], question: BenchQuestion, *kinds: str) -> list[UUID]:
        """Return the ids of the memories found, the best first. Raises NothingRecalled."""
        body = {"namespaces": list(names), "query": question.text, "kinds": kinds}
        found = (await self.client.post("/v1/search", json=body)).raise_for_status().json()["memories"]
        if not found and not kinds:
            raise NothingRecalled("a question of the bench found nothing")
        return [UUID(one["id"]) for one in found]

    def asking(self, *names: str, kinds: Sequence[str] = ()) -> Ask:
        """Return a function that searches these namespaces for a question."""

        async def ask(question: BenchQuestion) -> None:
            await self.search(names, question, *kinds)

        return ask


@dataclass(frozen=True, slots=True)
class PluginBench:
    """One run of the benchmark."""

    on: RecallServers
    here: BenchDatabase
    endpoint: PluginEndpoint
    filler: BankFiller
    floor: RecallProbe
    embedder: Embedder
    say: Say
    sizes: PluginSizes

    async def run(self) -> list[Measure]:
        """Run every measurement; searches first, so that no new memories are being embedded meanwhile."""
        await self._fill(THREE, self.sizes.units)
        measures = await self._search()
        checked = FIRST
        if self.sizes.large:
            await self._fill([LARGE], self.sizes.large)
            measures += await self._search_large()
            checked = LARGE
        self.say("filtered searches beside an exact one")
        measures.append(await self._compare(checked))
        await self.endpoint.make(WRITTEN)
        return [*await self._write(), *measures]

    async def _fill(self, names: Sequence[str], units: int) -> None:
        """Fill namespaces with memories as the stages would leave them, generated vectors included."""
        self.say(f"{units} memories in {', '.join(names)} (vectors: real ones plus noise)")
        every = max(1, min(RARE_EVERY, units // RARE_AT_LEAST))
        for name in names:
            await self.filler.fill(name, units)
            await self.endpoint.make(name)
            bank = identity.bank_id(self.filler.host, name)
            async with self.here.owner.begin() as connection:
                about = {"host": self.filler.host, "bank": bank, "every": every, "rare": RARE}
                await connection.execute(MARK, about)
        await self.filler.settle()
        indexes = VectorIndexes(self.on.servers.owner_url.get_secret_value(), self.on.recall.exact_units)
        while await indexes.build_some():
            self.say("an index over vectors is built")

    async def _search(self) -> list[Measure]:
        """Measure searches in one namespace, in three at once, and in one by 16 clients."""
        self.say(f"searches of {self.sizes.units} memories beside their floor")
        questions = await self._build_questions(FIRST, self.sizes.rounds)
        ways = [self.endpoint.asking(FIRST), self.endpoint.asking(*THREE), self.floor.floor]
        one, three, floor = map(compute_p50_ms, await _time_in_turns(ways, questions))
        crowd = list(islice(cycle(questions), self.sizes.crowd))
        by_many = compute_p95_ms(await run_lanes(split_lanes(self.endpoint.asking(FIRST), crowd, CLIENTS)))
        return [
            Measure(f"plugin_search_p50_{self.sizes.units}_memories", "ms", one, MeasureTarget("<=", 2.5), floor),
            Measure(f"plugin_search_p95_{CLIENTS}_clients", "ms", by_many, MeasureTarget("<=", 250.0)),
            Measure("plugin_search_p50_of_three_namespaces_over_one", "ms", three, MeasureTarget("<=", 1.5), one),
        ]

    async def _search_large(self) -> list[Measure]:
        """Measure searches in the large namespace, unfiltered and filtered to one memory in 1,000, beside a floor."""
        self.say(f"searches of {self.sizes.large} memories beside their floor")
        questions = await self._build_questions(LARGE, self.sizes.rounds)
        ways = [self.endpoint.asking(LARGE), self.endpoint.asking(LARGE, kinds=(RARE,)), self.floor.floor]
        ours, filtered, floor = map(compute_p95_ms, await _time_in_turns(ways, questions))
        name, most = f"search_p95_{self.sizes.large}_memories", MeasureTarget("<=", 3.0)
        return [
            Measure(f"plugin_{name}", "ms", ours, most, floor),
            Measure(f"plugin_filtered_{name}", "ms", filtered, most, floor),
        ]

    async def _compare(self, name: str) -> Measure:
        """Measure the share of an exact filtered search's ten best results that are found; equal scores count."""
        unbounded = self.on.recall.model_copy(update={"postings": 2**31 - 1, "embed_deadline_ms": 60_000})
        database = self.here.database(1, begun=_pass_over_indexes)
        exact = PluginSearch(database, self.embedder, unbounded, read_machine_time, PluginSettings().near, few=0)
        there = found = 0
        try:
            for question in await self._build_questions(name, self.sizes.checked):
                every = await exact.find(self.filler.host, SearchQuery([name], [RARE], 100), question.text)
                best = {one.memory_id: one.score or 0.0 for one in every.memories}
                least = min(sorted(best.values(), reverse=True)[:BEST], default=0.0) - TOLERANCE
                ours = (await self.endpoint.search([name], question, RARE))[:BEST]
                there += min(BEST, len(best))
                found += sum(best[one] >= least for one in ours if one in best)
        finally:
            await database.close()
        if not there:
            raise NothingRecalled("no filtered question of the bench found anything")
        return Measure(
            "plugin_filtered_search_recall_at_10_of_exact", "share", found / there, MeasureTarget(">=", 0.99)
        )

    async def _write(self) -> list[Measure]:
        """Measure writes by one client beside the same rows written without logic, then by 16 clients."""
        self.say("writes beside the same rows written bare")
        warm, ids = [uuid4() for _ in range(5)], [uuid4() for _ in range(self.sizes.rounds)]
        bank = identity.bank_id(self.filler.host, WRITTEN)
        sessions = [identity.memory_session(bank, name_memory(one)) for one in (*warm, *ids)]
        turns = [identity.turn_id(session, "0") for session in sessions]
        async with self.here.kept_from_workers(self.filler.host, sessions, turns):
            await run_lanes([self._build_writes(warm)])
            since = await read_transaction_mark(self.here)
            alone = compute_p50_ms(await run_lanes([self._build_writes(ids)]))
            bare = compute_p50_ms(await time_bare_writes(self.here, self.filler.host, since, len(ids)))
        await self._write_by_many(WARMING)
        await self._wait_settled()
        by_many = compute_p95_ms(await self._write_by_many(self.sizes.crowd))
        return [
            Measure("plugin_write_p50_1_client", "ms", alone, MeasureTarget("<=", 3.0), bare),
            Measure(f"plugin_write_p95_{CLIENTS}_clients", "ms", by_many, MeasureTarget("<=", 100.0)),
        ]

    async def _write_by_many(self, writes: int) -> list[float]:
        """Write memories by 16 clients; return the seconds of each write."""
        actions = self._build_writes([uuid4() for _ in range(writes)])
        return await run_lanes([actions[lane::CLIENTS] for lane in range(CLIENTS)])

    async def _wait_settled(self) -> None:
        """Wait until the workers have processed the writes, at most SETTLED_S."""
        for _ in range(round(SETTLED_S / POLL_S)):
            if not await self._is_undone():
                return
            await asyncio.sleep(POLL_S)

    async def _is_undone(self) -> bool:
        async with self.here.owner.connect() as connection:
            return bool(await connection.scalar(UNDONE, {"host": self.filler.host}))

    def _build_writes(self, ids: Sequence[UUID]) -> list[Action]:
        texts = cycle(self.filler.phrases.texts)
        return [partial(self.endpoint.write, one, content) for one, content in zip(ids, texts, strict=False)]

    async def _build_questions(self, name: str, count: int) -> list[BenchQuestion]:
        """Return `count` of the demo's questions, with what the floor reads for each."""
        asked = islice(cycle(one.question for one in load_demo().questions), count)
        return [await self.floor.understood(name, question) for question in asked]


async def _time_in_turns(ways: Sequence[Ask], questions: Sequence[BenchQuestion]) -> list[list[float]]:
    """Warm up each way, then alternate between them question by question; return the seconds of each way."""
    for way in ways:
        await run_lanes(split_lanes(way, questions[:5], 1))
    took: list[list[float]] = [[] for _ in ways]
    for question in questions:
        for mine, way in zip(took, ways, strict=True):
            mine.extend(await run_lanes([[partial(way, question)]]))
    return took


async def _pass_over_indexes(driver: Any) -> None:
    """Make a connection search vectors without the index of lists, which would search only a part of them."""
    await driver.execute("set enable_indexscan = off")
