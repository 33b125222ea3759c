"""Measures disk and WAL bytes of a chat turn after all stages, by table.

Only private servers are measured: on shared ones others write to the same tables. A first bank fills the first pages
of each table and index; the growth by later banks counts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

from sqlalchemy import text

from deploy.lab.bench.bench_database import BenchDatabase
from deploy.lab.bench.material import repeat_conversation
from deploy.lab.chaos.undisturbed import run_all_stages
from embeddings.registry import create_embedder
from embeddings.settings import EmbeddingSettings
from store.clock import read_machine_time
from store.database import Database
from store.memory.turns import NewTurn, TurnStore

#: Turns per append.
BATCH = 50
KIBIBYTE = 1024
#: Tables with fewer KiB per turn are left out.
SHARE = 0.005

# The bytes of a partition count for its table.
SIZES = text("""
    select coalesce(p.relname, c.relname) as name, sum(pg_total_relation_size(c.oid))::bigint as bytes
      from pg_class c
      left join pg_inherits i on i.inhrelid = c.oid
      left join pg_class p on p.oid = i.inhparent
     where c.relnamespace = cast('afterturn' as regnamespace) and c.relkind = 'r' group by 1""")
WAL = text("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint")


async def measure_footprint(here: BenchDatabase, banks: int) -> dict[str, float]:
    """Return KiB per turn: `disk_kib_a_turn`, `wal_kib_a_turn`, and disk by table; empty on shared servers."""
    if here.servers.shared:
        return {}
    database = here.database(4)
    try:
        host, store = await here.new_host(database), TurnStore(database, read_machine_time)
        first, *others = (list(_split_messages(turns)) for turns in repeat_conversation(banks + 1))
        await _append_turns(database, store, host, [first])
        before, wal_before = await _read_sizes(here)
        await _append_turns(database, store, host, others)
        after, wal_after = await _read_sizes(here)
    finally:
        await database.close()
    turns = sum(map(len, others)) * KIBIBYTE
    by_table = {name: (size - before.get(name, 0)) / turns for name, size in after.items()}
    return {
        "disk_kib_a_turn": sum(by_table.values()),
        "wal_kib_a_turn": (wal_after - wal_before) / turns,
        **_largest_first(by_table),
    }


async def _append_turns(database: Database, store: TurnStore, host: UUID, banks: Sequence[Sequence[NewTurn]]) -> None:
    """Append the turns and process them in every stage."""
    for turns in banks:
        for start in range(0, len(turns), BATCH):
            await store.append(host, turns[start : start + BATCH])
    with TemporaryDirectory() as folder:
        embedder = create_embedder(EmbeddingSettings(), Path(folder))
        await embedder.load()
        try:
            await run_all_stages(database, embedder)
        finally:
            await embedder.close()


def _split_messages(turns: Iterable[NewTurn]) -> Iterator[NewTurn]:
    """Yield each message as a turn of its own that is not delivered to a gateway."""
    for turn in turns:
        for n, message in enumerate(turn.messages):
            yield replace(turn, turn_name=f"{turn.turn_name}-{n}", messages=[message], gateway=False)


async def _read_sizes(here: BenchDatabase) -> tuple[Mapping[str, int], int]:
    """Return the bytes of each table with its indexes, and of the WAL so far."""
    async with here.owner.connect() as connection:
        sizes = {row.name: row.bytes for row in await connection.execute(SIZES)}
        return sizes, int((await connection.execute(WAL)).scalar_one())


def _largest_first(by_table: Mapping[str, float]) -> dict[str, float]:
    shown = {name: size for name, size in by_table.items() if size >= SHARE}
    return {f"{name}_kib": shown[name] for name in sorted(shown, key=lambda name: -shown[name])}
