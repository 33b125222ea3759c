"""`afterturn bench plugin`: the memory plugin beside the contract's reference storage, on one server in one run.

Both are asked without HTTP. The reference is what contract 1.5 says of it: one table with a full text and a vector
column and their indexes, asked by one statement that commits. What ours does beside that is the log with its stages,
row-level security, and a search by meaning, whose embedding of the question is part of the floor.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from deploy.lab.bench.ground import BenchDatabase, open_bench_database
from deploy.lab.bench.measures import BenchOutcome, Machine, Measure, Target
from deploy.lab.bench.servers import BenchServers, open_bench_servers
from deploy.lab.bench.timing import Action, compute_p50_ms, run_lanes
from embeddings.protocol import Embedder
from embeddings.registry import create_embedder
from embeddings.settings import EmbeddingSettings
from producers.plugin.bank_store import BankPluginStore, EraseQueue, PluginParts
from producers.plugin.wire import MemoryKind, MemoryWrite, NamespaceKind, SearchRequest, Source
from producers.settings import PluginSettings
from store import identity
from store.database import Database
from store.derived.pending_words import carry_words
from store.derived.unit_vectors import Unembedded, insert_vectors
from store.erasure import Erasures
from store.ledger.stages import Stage
from store.plugin.memories import PluginMemories
from store.plugin.namespaces import Namespaces
from store.plugin.search import PluginSearch
from store.recall.settings import RecallSettings

CONNECTIONS = 8
DIMENSION = 384
#: Texts that are embedded in one go.
BATCH = 64
_TEXT = """train ticket invoice harbour meeting deadline budget Ghent Kyoto garden violin recipe passport server
    migration release customer contract allergy window battery lecture museum bicycle"""
#: What the memories are made of.
WORDS = tuple(_TEXT.split())
#: Lends what `run` takes.
servers = open_bench_servers

REFERENCE = (
    "drop schema if exists bench_plugin_reference cascade",
    "create schema bench_plugin_reference",
    "create table bench_plugin_reference.memory_namespaces (name text primary key)",
    """create table bench_plugin_reference.memory_records (
        id uuid primary key, namespace text not null references bench_plugin_reference.memory_namespaces,
        content text not null, kind text not null, source text not null, expires_at timestamptz, propagation jsonb,
        pin bool not null default false, embedding public.vector(384),
        content_tsv tsvector generated always as (to_tsvector('english', content)) stored,
        created_at timestamptz not null default now())""",
    "create index on bench_plugin_reference.memory_records (namespace)",
    "create index on bench_plugin_reference.memory_records using gin (content_tsv)",
)
NAMESPACE = text("insert into bench_plugin_reference.memory_namespaces values (:name)")
UPSERT = text("""
    insert into bench_plugin_reference.memory_records (id, namespace, content, kind, source, embedding)
    values (:id, :name, :content, 'fact', 'agent', cast(cast(:embedding as real[]) as public.vector))
    on conflict (id) do update set content = excluded.content, embedding = excluded.embedding""")
LIST = text("""
    select id, content, kind, source, created_at from bench_plugin_reference.memory_records
     where namespace = :name and (expires_at is null or expires_at > now())
     order by pin desc, created_at desc limit 20""")
SEARCH = text("""
    select id, content, ts_rank(content_tsv, q) as score
      from bench_plugin_reference.memory_records, plainto_tsquery('english', :query) q
     where namespace = :name and content_tsv @@ q and (expires_at is null or expires_at > now())
     order by score desc limit 20""")
NEAREST = text("""
    select id, content, 1 - (embedding operator(public.<=>) cast(cast(:embedding as real[]) as public.vector)) as score
      from bench_plugin_reference.memory_records
     where namespace = :name and embedding is not null and (expires_at is null or expires_at > now())
     order by embedding operator(public.<=>) cast(cast(:embedding as real[]) as public.vector) limit 20""")
UNITS = text("""
    select u.bank_id, u.unit_id, u.content, u.aggregate_version from afterturn.agent_memory_unit_t u
     where u.host_id = :host and u.origin = 'memory' and u.active""")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many memories there are, in how many namespaces alike, and how often each call is made."""

    units: int = 2_000
    namespaces: int = 10
    rounds: int = 60


FULL = Sizes(units=20_000, rounds=200)


@dataclass(frozen=True, slots=True)
class _Ground:
    """Both sides, filled with the same memories."""

    store: BankPluginStore
    reference: AsyncConnection
    embedder: Embedder
    names: Sequence[str]
    random: Random


async def run(on: BenchServers, say: Say, sizes: Sizes) -> BenchOutcome:
    """Fill both sides with the same memories, ask each in turn, and leave nothing behind."""
    async with open_bench_database(on) as here:
        async with here.owner.connect() as connection:
            machine = await Machine.read(connection)
        say(f"{sizes.units} memories in {sizes.namespaces} namespaces")
        with TemporaryDirectory() as folder:
            async with _open_ground(here, sizes, Path(folder)) as ground:
                say(f"six calls, {sizes.rounds} times each")
                measures = await _measure(ground, sizes)
    return BenchOutcome(machine, measures, asdict(sizes))


async def _measure(ground: _Ground, sizes: Sizes) -> list[Measure]:
    """Take every measure. A target is where a figure stands, with room for a busy machine."""
    first, everywhere, fresh = ground.names[0], tuple(ground.names), count()
    ours, theirs = ground.store, ground.reference
    written = [uuid4() for _ in range(sizes.rounds)]
    known = [uuid4() for _ in range(sizes.rounds)]

    async def write(ids: Sequence[UUID]) -> None:
        await ours.write(first, _memory(ground.random, ids[next(fresh) % len(ids)]))

    async def insert(ids: Sequence[UUID]) -> None:
        await _upsert(theirs, first, _memory(ground.random, ids[next(fresh) % len(ids)]))

    async def reference_search() -> None:
        query = _sentence(ground.random, 2)
        await ground.embedder.embed([query])
        await theirs.execute(SEARCH, {"name": first, "query": query})

    async def ask(names: Sequence[str], *, by: str) -> None:
        found = await ours.search(
            SearchRequest(
                namespaces=tuple(names),
                query=_sentence(ground.random, 2) if by == "text" else None,
                embedding=_vector(ground.random) if by == "vector" else None,
            )
        )
        assert len(found.memories) > 0 or by == "text"  # noqa: S101 - a bench of nothing measures nothing

    async def reference_nearest() -> None:
        await theirs.execute(NEAREST, {"name": first, "embedding": list(_vector(ground.random))})

    async def reference_list() -> None:
        await theirs.execute(LIST, {"name": first})

    one = await _p50(sizes, partial(ask, [first], by="text"))
    rows: list[tuple[str, float, Action | float, Action | float]] = [
        ("plugin_write_p50_over_reference", 30.0, partial(write, written), partial(insert, known)),
        ("plugin_replace_p50_over_reference", 45.0, partial(write, written), partial(insert, known)),
        ("plugin_list_p50_over_reference", 30.0, partial(ask, [first], by="list"), reference_list),
        ("plugin_text_search_p50_over_reference_and_embedding", 10.0, one, reference_search),
        ("plugin_text_search_of_all_namespaces_p50_over_one", 4.0, partial(ask, everywhere, by="text"), one),
        ("plugin_vector_search_p50_over_reference", 20.0, partial(ask, [first], by="vector"), reference_nearest),
    ]
    return [
        Measure(name, "ms", await _figure(sizes, mine), Target("<=", most), await _figure(sizes, floor))
        for name, most, mine, floor in rows
    ]


async def _figure(sizes: Sizes, action: Action | float) -> float:
    return action if isinstance(action, float) else await _p50(sizes, action)


async def _p50(sizes: Sizes, action: Action) -> float:
    """Return the median of a call, after a few that nobody counts."""
    await run_lanes([[action] * 3])
    return compute_p50_ms(await run_lanes([[action] * sizes.rounds]))


@asynccontextmanager
async def _open_ground(here: BenchDatabase, sizes: Sizes, folder: Path) -> AsyncGenerator[_Ground]:
    database = here.database(CONNECTIONS)
    embedder = create_embedder(EmbeddingSettings(), folder)
    host, random = await here.new_host(database), Random(7)  # noqa: S311 - the same memories every time
    erasing = EraseQueue(Erasures(database, _now), 0.0)
    engine = here.owner.execution_options(isolation_level="AUTOCOMMIT")
    try:
        await embedder.load()
        async with engine.connect() as reference:
            for statement in REFERENCE:
                await reference.execute(text(statement))
            store = BankPluginStore(host, _parts(database, embedder, erasing))
            names = [f"workspace:bench-{n}" for n in range(sizes.namespaces)]
            ground = _Ground(store, reference, embedder, names, random)
            await _fill(ground, sizes)
            await _work_off(database, host, ground)
            yield ground
            await reference.execute(text(REFERENCE[0]))
    finally:
        await erasing.close()
        await embedder.close()
        await database.close()


def _parts(database: Database, embedder: Embedder, erasing: EraseQueue) -> PluginParts:
    settings = PluginSettings()
    return PluginParts(
        Namespaces(database, _now),
        PluginMemories(database, _now),
        PluginSearch(database, embedder, RecallSettings(), _now, settings.near),
        erasing,
        _call_nobody,
        settings,
    )


async def _fill(ground: _Ground, sizes: Sizes) -> None:
    """Write the same memories into both sides."""
    for name in ground.names:
        await ground.store.upsert_namespace(name, NamespaceKind.WORKSPACE, {})
        await ground.reference.execute(NAMESPACE, {"name": name})
    memories = [(ground.names[n % len(ground.names)], _memory(ground.random, uuid4())) for n in range(sizes.units)]
    lanes: list[list[Callable[[], Awaitable[Any]]]] = [
        [partial(ground.store.write, *one) for one in memories[lane::CONNECTIONS]] for lane in range(CONNECTIONS)
    ]
    await run_lanes(lanes)
    for one in memories:
        await _upsert(ground.reference, *one)


async def _work_off(database: Database, host: UUID, ground: _Ground) -> None:
    """Do what workers do: carry the words, and make the vectors."""
    for name in ground.names:
        while await carry_words(database, host, identity.bank_id(host, name)):
            pass
    async with database.tenant(host) as connection:
        units = [Unembedded(*row) for row in await connection.execute(UNITS, {"host": host})]
    for some in (units[at : at + BATCH] for at in range(0, len(units), BATCH)):
        vectors = await ground.embedder.embed([unit.content for unit in some])
        async with database.tenant(host) as connection:
            await insert_vectors(connection, host, ground.embedder.generation, some, vectors)


async def _upsert(reference: AsyncConnection, name: str, memory: MemoryWrite) -> None:
    about = {"id": memory.id, "name": name, "content": memory.content, "embedding": list(memory.embedding or ())}
    await reference.execute(UPSERT, about)


def _memory(random: Random, memory_id: UUID) -> MemoryWrite:
    return MemoryWrite(
        id=memory_id,
        content=_sentence(random, 14),
        kind=MemoryKind.FACT,
        source=Source.AGENT,
        embedding=_vector(random),
    )


def _sentence(random: Random, words: int) -> str:
    return " ".join(random.choices(WORDS, k=words))


def _vector(random: Random) -> tuple[float, ...]:
    return tuple(random.gauss(0, 1) for _ in range(DIMENSION))


def _call_nobody(*stages: Stage) -> None:
    """Notify no worker while calls are timed."""
    del stages


def _now() -> datetime:
    return datetime.now(UTC)
