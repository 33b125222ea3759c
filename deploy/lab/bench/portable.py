"""`afterturn bench portable`: snapshots in and out beside the bare log, turns meanwhile, commands, generations."""

import asyncio
import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from statistics import median
from uuid import UUID, uuid4

import httpx
import orjson
import psutil
import redis
from dramatiq.brokers.redis import RedisBroker
from sqlalchemy import text

from deploy.components.facade import build_dependencies
from deploy.lab.bench.acknowledgement import append_new_turns, derive_turn_ids
from deploy.lab.bench.as_service import run_as_service
from deploy.lab.bench.bench_database import BenchDatabase, open_bench_database
from deploy.lab.bench.generation_build import GenerationBuild, make_live_vectors, measure_build, read_texts
from deploy.lab.bench.history import History
from deploy.lab.bench.measures import BenchOutcome, Machine, Measure, MeasureTarget
from deploy.lab.bench.recall import speed
from deploy.lab.bench.recall.asking import BenchQuestion, RecallEndpoint
from deploy.lab.bench.talk import BANK, TurnGenerator
from deploy.lab.bench.timing import compute_p50_ms, compute_p95_ms
from deploy.lab.constant_embedder import ConstantEmbedder
from deploy.notices import Say
from embeddings.registry import create_embedder
from producers.notifications import Notifier
from producers.service.memory import MemoryFacade
from producers.service.recall_coordinator import RecallCoordinator
from producers.settings import ApiSettings
from store import identity
from store.clock import DatabaseClock, read_machine_time
from store.database import Database
from store.ledger.freshness import Waiter
from store.log.bulk import append_bulk
from store.memory.turns import TurnStore
from store.off_loop import run_off_loop
from store.recall.query import RecallQuery
from store.recall.recaller import Recaller
from store.recall.settings import RecallSettings
from store.snapshot.events import build_cloud_event
from store.snapshot.exporting import ExportRequest, Exports
from store.snapshot.importing import ImportRequest, Imports
from store.snapshot.policy import Part
from store.tenancy.keys import Grant
from store.text.terms import analyse_text

#: Opens the servers that `run` takes.
servers = speed.servers
CONNECTIONS = 8
BATCH_SIZE, BATCH_BYTES = 2000, 2_000_000
PAGE = 2000
#: Events of each import during which turns are timed.
IMPORTED_MEANWHILE = 10_000
MEGABYTE = 1_000_000
REDIS_S = 0.5
EVERYTHING = frozenset(Part)
BARE = text("""
    select e.*, cast(e.data as text) as told from afterturn.event_store_t e
     where e.host_id = :host and e.position > :after order by e.position limit :limit""")
TEXTS = text("select content from afterturn.agent_memory_unit_t where host_id = :host and active and content <> ''")


@dataclass(frozen=True, slots=True)
class PortableSizes:
    """The size of a run: `rounds` of ours and floor in turn, each of `events` events; `calls` turns and commands.

    Memory is compared after `memory_from` and after `memory_to` events; a generation is built of `built` events' texts.
    """

    events: int = 20_000
    rounds: int = 3
    memory_from: int = 20_000
    memory_to: int = 60_000
    calls: int = 300
    built: int = 5_000


FULL = PortableSizes(events=50_000, memory_from=100_000, memory_to=1_000_000, calls=1_000, built=50_000)


async def run(on: speed.RecallServers, say: Say, sizes: PortableSizes) -> BenchOutcome:
    """Run every measurement, one after the other, and remove all data afterwards."""
    async with open_bench_database(on.servers) as here:
        async with here.owner.connect() as connection:
            machine = await Machine.read(connection)
        database = here.database(CONNECTIONS)
        try:
            bench = PortableBench(here, database)
            with run_as_service():
                # Measured first, because memory that other measurements have freed would hide this one's growth.
                say(f"memory of an import between {sizes.memory_from} and {sizes.memory_to} events")
                measures = [await bench.measure_memory(sizes.memory_from, sizes.memory_to)]
                say(f"imports and exports of {sizes.events} events beside their floors, {sizes.rounds} times")
                measures += await bench.measure_rates(sizes.events, sizes.rounds)
                say(f"{sizes.calls} turns, quiet and during an import")
                measures.append(await bench.measure_turns(sizes.calls))
                say(f"{sizes.calls} commands beside single memories")
                measures.append(await measure_commands(on, here, database, sizes.calls))
                say(f"a generation of vectors of {sizes.built} events' texts")
                measures += await bench.measure_generation(on, sizes.built, sizes.calls)
        finally:
            await database.close()
    return BenchOutcome(machine, measures, asdict(sizes))


class ImportIncomplete(Exception):
    """Events of the benchmark were not imported, so its figures would be meaningless."""


@dataclass(slots=True)
class PortableBench:
    """Imports and exports of generated histories, each into a tenant of its own."""

    here: BenchDatabase
    database: Database
    _seed: int = 0

    async def measure_memory(self, first: int, last: int) -> Measure:
        """Compare this process's memory after `first` and after `last` events of one import."""
        host = await self.here.new_host(self.database)
        imports, row = await self._begin(host)
        lines, place, early = _iterate_lines(host, last, self._next_seed()), 0, 0
        for batch in _iterate_batches(lines):
            events = orjson.loads(batch)
            await imports.take(host, row, place, events)
            place += len(events)
            if not early and place >= first:
                early = _measure_resident_bytes()
        grown = abs(_measure_resident_bytes() - early) / MEGABYTE
        return Measure(f"import_memory_growth_{first}_to_{last}_events", "MB", grown, MeasureTarget("<=", 50.0))

    async def measure_rates(self, events: int, rounds: int) -> list[Measure]:
        """Measure imports beside bulk appends, completion beside analysis, and exports beside the bare log."""
        bulk, taken, analysed, completed, bare, exported = (list[float]() for _ in range(6))
        for _ in range(rounds):
            seed = self._next_seed()
            bulk.append(events / await self._load(events, seed))
            host, imports, row, took = await self._import(events, seed)
            taken.append(events / took)
            units = await self._read_texts(host)
            completed.append(len(units) / await self._finish(imports, host, row, events))
            # Otherwise workers would make its vectors beside what is measured next.
            await self.here.settle(host)
            analysed.append(len(units) / await _time_analysis(units))
            bare.append(events / await self._read_bare(host))
            exported.append(events / await self._export(host))
        return [
            Measure("import_over_bulk_append", "events/s", median(taken), MeasureTarget(">=", 0.8), median(bulk)),
            Measure(
                "words_and_guards_over_analysis",
                "units/s",
                median(completed),
                MeasureTarget(">=", 0.8),
                median(analysed),
            ),
            Measure("export_over_bare_log", "events/s", median(exported), MeasureTarget(">=", 0.5), median(bare)),
        ]

    async def measure_turns(self, calls: int) -> Measure:
        """Compare the p95 of a turn's acknowledgement during another tenant's import with that without one."""
        host, store = await self.here.new_host(self.database), TurnStore(self.database, read_machine_time)
        await self._time_turns(store, host, "warm", 20)
        quiet = await self._time_turns(store, host, "quiet", calls)
        # Made before, and for each further tenant by its id alone: the sender of a snapshot works elsewhere.
        of = await self.here.new_host(self.database)
        made = list(_iterate_batches(_iterate_lines(of, IMPORTED_MEANWHILE, self._next_seed())))
        busy, stopped = asyncio.Event(), asyncio.Event()

        async def keep_importing() -> None:
            while not stopped.is_set():
                other = await self.here.new_host(self.database)
                imports, row = await self._begin(other)
                place = 0
                for batch in made:
                    if stopped.is_set():
                        return
                    events = orjson.loads(batch.replace(str(of).encode(), str(other).encode()))
                    await imports.take(other, row, place, events)
                    place += len(events)
                    busy.set()
                while not stopped.is_set() and (await imports.finish(other, row, place)).status != "done":
                    pass

        importing = asyncio.create_task(keep_importing())
        try:
            await asyncio.wait([importing, asyncio.create_task(busy.wait())], return_when=asyncio.FIRST_COMPLETED)
            during = await self._time_turns(store, host, "during", calls)
        finally:
            stopped.set()
            await importing
        target = MeasureTarget("<=", 3.0)
        return Measure("ack_p95_during_import", "ms", compute_p95_ms(during), target, compute_p95_ms(quiet))

    async def measure_generation(self, on: speed.RecallServers, events: int, calls: int) -> list[Measure]:
        """Measure the build of a generation beside its model alone, and recall meanwhile beside recall without it."""
        embedder, key = create_embedder(on.embedding, on.data), await self.here.new_key(self.database)
        host, imports, row, _ = await self._import(events, self._next_seed(), self.here.newest_host)
        await self._finish(imports, host, row, events)
        await self.here.settle(host)
        bank = identity.bank_id(host, BANK)
        recaller = Recaller(self.database, embedder, on.recall)
        try:
            await embedder.load()
            await make_live_vectors(self.database, embedder, host, bank)
            async with httpx.AsyncClient(
                base_url=on.api or "", headers={"authorization": f"Bearer {key}"}, trust_env=False
            ) as client:

                async def recall(question: str) -> None:
                    if on.api is None:
                        await recaller.recall(host, RecallQuery(BANK, question))
                    else:
                        await RecallEndpoint(client, key).ask(BenchQuestion(BANK, question, (), 0))

                questions = (await read_texts(self.database, host, bank))[:calls]
                build = GenerationBuild(on.servers, on.embedding, on.data, host, bank)
                return await measure_build(build, recall, questions)
        finally:
            await embedder.close()

    async def _begin(self, host: UUID) -> tuple[Imports, UUID]:
        imports = Imports(self.database, read_machine_time)
        row = await imports.begin(host, ImportRequest(EVERYTHING, "bench", uuid4(), host))
        return imports, row.snapshot_id

    async def _load(self, events: int, seed: int) -> float:
        host = await self.here.new_host(self.database)
        made = list(History(host, BANK, seed).events(events))
        gc.freeze()
        begun = time.perf_counter()
        await append_bulk(self.database, host, made)
        return time.perf_counter() - begun

    async def _import(self, events: int, seed: int, into: UUID | None = None) -> tuple[UUID, Imports, UUID, float]:
        host = into or await self.here.new_host(self.database)
        made = [orjson.loads(batch) for batch in _iterate_batches(_iterate_lines(host, events, seed))]
        imports, row = await self._begin(host)
        gc.freeze()
        begun, place = time.perf_counter(), 0
        for batch in made:
            done = await imports.take(host, row, place, batch)
            place += len(batch)
        took = time.perf_counter() - begun
        if done.row.counts["imported"] != events:
            raise ImportIncomplete("an event of the bench was not imported")
        return host, imports, row, took

    async def _finish(self, imports: Imports, host: UUID, row: UUID, events: int) -> float:
        begun = time.perf_counter()
        while (await imports.finish(host, row, events)).status != "done":
            pass
        return time.perf_counter() - begun

    async def _export(self, host: UUID) -> float:
        exports = Exports(self.database, read_machine_time)
        begun = time.perf_counter()
        row = await exports.begin(host, ExportRequest(EVERYTHING, "bench"))
        while row.status != "done":
            row = (await exports.read_page(host, row.snapshot_id, row.place, PAGE)).row
        return time.perf_counter() - begun

    async def _read_bare(self, host: UUID) -> float:
        begun, after, more = time.perf_counter(), 0, True
        while more:
            async with self.database.tenant(host) as connection:
                found = (await connection.execute(BARE, {"host": host, "after": after, "limit": PAGE})).all()
            more = len(found) == PAGE
            after = found[-1].position if found else after
        return time.perf_counter() - begun

    async def _read_texts(self, host: UUID) -> list[str]:
        async with self.database.tenant(host) as connection:
            return list((await connection.execute(TEXTS, {"host": host})).scalars())

    async def _time_turns(self, store: TurnStore, host: UUID, session: str, calls: int) -> list[float]:
        turns = TurnGenerator(session).take(calls)
        of, ids = derive_turn_ids(host, turns)
        took = list[float]()
        async with self.here.kept_from_workers(host, [of], ids):
            for turn in turns:
                begun = time.perf_counter()
                await append_new_turns(store, host, turn)
                took.append(time.perf_counter() - begun)
                await asyncio.sleep(0.005)
        return took

    def _next_seed(self) -> int:
        self._seed += 1
        return self._seed


async def measure_commands(on: speed.RecallServers, here: BenchDatabase, database: Database, calls: int) -> Measure:
    """Compare the p50 of a retain by command, with a key, with that of the same text as a single memory."""
    host = await here.new_host(database)
    grant = Grant(key_id=uuid4(), host_id=host, banks=None, write=True)
    clock = await DatabaseClock.asked(database)
    recaller = Recaller(database, ConstantEmbedder(), RecallSettings(), clock=clock)
    client = redis.Redis.from_url(
        on.redis_url.get_secret_value(), socket_connect_timeout=REDIS_S, socket_timeout=REDIS_S
    )
    notifier = Notifier(RedisBroker(client=client, middleware=[]))  # type: ignore[no-untyped-call]
    coordinator = RecallCoordinator(database, recaller, Waiter(database))
    memory = MemoryFacade(build_dependencies(database, clock, coordinator, notifier), ApiSettings())
    texts = [one.content for turn in TurnGenerator("texts").take(calls + 10) for one in turn.messages]
    single, command = list[float](), list[float]()
    _, bank = await memory.commands.run(grant, {"action": "createAgentMemoryBank", "data": {"bankId": str(uuid4())}})
    try:
        for said, told in zip(texts[::2], texts[1::2], strict=True):
            begun = time.perf_counter()
            await memory.memories.keep(grant, {"bank": bank["bank"], "id": str(uuid4()), "content": said})
            single.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            data = {"bankId": bank["bankId"], "content": told, "factType": "world", "metadata": {}}
            await memory.commands.run(grant, {"action": "retainAgentMemoryUnit", "data": data}, str(uuid4()))
            command.append(time.perf_counter() - begun)
    finally:
        with suppress(redis.RedisError):
            await notifier.close()
    ours, floor = compute_p50_ms(command[10:]), compute_p50_ms(single[10:])
    return Measure("command_p50_over_single_memory", "ms", ours, MeasureTarget("<=", 1.3), floor)


def _iterate_lines(host: UUID, events: int, seed: int) -> Iterator[bytes]:
    for nth, event in enumerate(History(host, BANK, seed).events(events), 1):
        yield orjson.dumps(build_cloud_event(event, host, nth))


def _iterate_batches(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the events of one request after the other, as JSON, cut as the command cuts them."""
    batch, size = list[bytes](), 0
    for line in lines:
        if batch and (len(batch) >= BATCH_SIZE or size + len(line) > BATCH_BYTES):
            yield b"[" + b",".join(batch) + b"]"
            batch, size = [], 0
        batch.append(line)
        size += len(line)
    yield b"[" + b",".join(batch) + b"]"


async def _time_analysis(texts: Sequence[str]) -> float:
    def analyse() -> None:
        for one in texts:
            analyse_text(one)

    begun = time.perf_counter()
    await run_off_loop(len(texts) * 1000, analyse)
    return time.perf_counter() - begun


def _measure_resident_bytes() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)
