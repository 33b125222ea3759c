"""Indexes by nearness over partitions of vectors: where a bank needs one, and building it beside everything else.

Up to a size, reading all vectors of a bank is the fastest and misses nothing. Beyond it, an inverted file (pgvector's
ivfflat) reads a share of them. It was measured beside HNSW at 100,000 units (vectors: real ones plus noise): for the
same share of the exact ten it is twice as fast, built in seconds instead of minutes, and costs a live insert a
twentieth. Its centres grow stale as a bank grows, so it is built anew when the partition is twice what it was.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import NullPool, Row, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from store.connections import create_owner_engine

PARTITIONS = 16
#: Vectors in a list, about: a share of the lists is read, and every list's centre.
LIST_UNITS = 250
#: Finding the centres takes memory by the square.
MOST_LISTS = 1000
#: It ends before another look is due, so that other maintenance has its turn.
LOOK_S = 5.0

# The size of its largest bank says whether a partition needs an index, its own size how fine that has to be.
PARTITIONS_IN_NEED = text("""
    select r as partition, coalesce(max(s.units), 0) as largest,
           greatest(max(s.units), max(c.reltuples::bigint)) as vectors, max(i.lists) as lists,
           coalesce(bool_or(i.valid), false) as valid
      from generate_series(0, :partitions - 1) r
      join pg_class c on c.oid = to_regclass('afterturn.unit_vector_' || r)
      left join afterturn.bank_statistics_t s
        on s.units > :exact_units / 2
       and satisfies_hash_partition(cast('afterturn.unit_vector_t' as regclass), :partitions, r, s.bank_id)
      left join lateral (select x.indisvalid as valid,
                                (select cast(split_part(o, '=', 2) as int) from unnest(n.reloptions) o
                                  where o like 'lists=%') as lists
                           from pg_class n join pg_index x on x.indexrelid = n.oid
                          where n.oid = to_regclass('afterturn.unit_vector_' || r || '_near')) i on true
     group by r having max(s.units) > :exact_units or max(i.lists) is not null order by r""")
# Held by the builder's session for as long as it lives.
LOCK = text("select pg_try_advisory_lock(hashtextextended('afterturn.vector_indexes', 0))")
#: Finding the centres of a million vectors takes 400 MB.
MEMORY = text("set maintenance_work_mem = '512MB'")


@dataclass(frozen=True, slots=True)
class Needed:
    """A partition that needs an index of this many lists; 0: its index is not needed any more."""

    partition: int
    lists: int


class VectorIndexes:
    """Builds the needed indexes one after the other, without blocking reads or writes.

    `owner_url` has the owner's rights. An instance belongs to one event loop.
    """

    def __init__(self, owner_url: str, exact_units: int) -> None:
        self._owner_url = owner_url
        self._exact_units = exact_units
        self._building: asyncio.Task[None] | None = None

    async def needed(self) -> list[Needed]:
        """Return the partitions with a large bank and no index that fits, or with an index and no such bank."""
        async with self._owner() as connection:
            return await self._needed(connection)

    async def build_some(self) -> bool:
        """Build for some seconds; return whether there is more to do (what another process builds is not)."""
        if self._building is None:
            self._building = asyncio.create_task(self._build())
        done, _ = await asyncio.wait([self._building], timeout=LOOK_S)
        if not done:
            return True
        building, self._building = self._building, None
        building.result()
        return False

    async def close(self) -> None:
        """Give up what is being built; the next run takes it away and begins anew."""
        if self._building is not None:
            self._building.cancel()
            with suppress(asyncio.CancelledError, SQLAlchemyError, OSError):
                await self._building

    async def _build(self) -> None:
        async with self._owner() as connection:
            if not (await connection.execute(LOCK)).scalar_one():
                return
            await connection.execute(MEMORY)
            for needed in await self._needed(connection):
                for statement in index_statements(needed):
                    await connection.execute(text(statement))

    async def _needed(self, connection: AsyncConnection) -> list[Needed]:
        arguments = {"partitions": PARTITIONS, "exact_units": self._exact_units}
        rows = await connection.execute(PARTITIONS_IN_NEED, arguments)
        return [Needed(row.partition, lists) for row in rows if (lists := self._change(row)) is not None]

    def _change(self, row: Row[Any]) -> int | None:
        """Return how many lists a partition's index is to have, None where it is well as it is."""
        if row.largest <= self._exact_units:
            # A bank that was just too large is let shrink a good deal first.
            return None if 2 * row.largest > self._exact_units else 0
        lists = lists_of(row.vectors)
        return None if row.valid and 2 * row.lists > lists else lists

    @asynccontextmanager
    async def _owner(self) -> AsyncGenerator[AsyncConnection]:
        engine = create_owner_engine(self._owner_url, timeout_s=5, isolation_level="AUTOCOMMIT", poolclass=NullPool)
        try:
            async with engine.connect() as connection:
                yield connection
        finally:
            await engine.dispose()


def lists_of(vectors: int) -> int:
    """Return how many lists an index of this many vectors has."""
    return max(1, min(vectors // LIST_UNITS, MOST_LISTS))


def index_statements(needed: Needed) -> Sequence[str]:
    """Return what builds an index, or takes it away: nothing holds up a writer, readers have the old one meanwhile.

    What an earlier run left half done goes first.
    """
    table = f"unit_vector_{needed.partition}"
    gone = f"drop index concurrently if exists afterturn.{table}_near"
    if not needed.lists:
        return (gone,)
    build = f"using ivfflat (embedding public.halfvec_ip_ops) with (lists = {needed.lists})"
    return (
        f"drop index concurrently if exists afterturn.{table}_coming",
        f"create index concurrently {table}_coming on afterturn.{table} {build}",
        gone,
        f"alter index afterturn.{table}_coming rename to {table}_near",
    )
