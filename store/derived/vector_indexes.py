"""Vector indexes: decides which banks need one, and builds it concurrently.

Up to a size, reading all vectors of a bank is the fastest and misses nothing. Beyond it, an inverted file (pgvector's
ivfflat) reads a share of them. It was compared with HNSW at 100,000 units (vectors: real ones plus noise): for the
same share of the exact ten it is twice as fast, built in seconds instead of minutes, and costs a live insert a
twentieth. Its centres grow stale as a bank grows, so it is built anew when the partition is twice what it was.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import NullPool, Row, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from store.connections import create_owner_engine

PARTITIONS = 16
#: Vectors in a list, about: a share of the lists is read, and every list's centre. Of 100,000, lists of 100 give 98.8 %
#: of the exact 40 nearest at .55 of the processor time in which lists of 250 gave 96.8 %.
LIST_UNITS = 100
#: The most lists of an index: finding their centres takes memory by the square of their number.
MOST_LISTS = 1000
#: Longer vectors get fewer lists: pgvector refuses a build that does not fit into MEMORY.
LONG, MOST_LISTS_OF_LONG = 2000, 700
#: Seconds that one look may take; it ends before the next is due, so that other maintenance tasks can run.
LOOK_S = 5.0

# Whether a partition needs an index of a generation depends on its largest bank; the number of lists depends on how
# many vectors the partition has of it. An index of a generation that is no more, or is being dropped, is not needed.
PARTITIONS_IN_NEED = text("""
    with stored as materialized (
        select cast(split_part(n.relname, '_', 3) as int) as partition,
               cast(split_part(n.relname, '_', 4) as smallint) as generation, x.indisvalid as valid,
               n.reltuples as entries,
               (select cast(split_part(o, '=', 2) as int) from unnest(n.reloptions) o where o like 'lists=%') as lists
          from pg_class n join pg_index x on x.indexrelid = n.oid
         where n.relnamespace = cast('afterturn' as regnamespace) and n.relname ~ '^unit_vector_[0-9]+_[0-9]+_near$'),
    wanted as materialized (
        select r as partition, g.generation, g.dimension, max(s.units) as largest
          from generate_series(0, :partitions - 1) r
          join afterturn.bank_statistics_t s
            on s.units > :exact_units / 2
           and satisfies_hash_partition(cast('afterturn.unit_vector_t' as regclass), :partitions, r, s.bank_id)
         cross join public.afterturn_generation g
         where g.state <> 'dropping'
         group by r, g.generation)
    select partition, generation, coalesce(w.dimension, 0) as dimension, coalesce(w.largest, 0) as largest,
           greatest(w.largest, cast(coalesce(i.entries, c.reltuples) as bigint)) as vectors, i.lists,
           coalesce(i.valid, false) as valid
      from wanted w full join stored i using (partition, generation)
      join pg_class c on c.oid = to_regclass('afterturn.unit_vector_' || partition)
     where w.largest > :exact_units or i.lists is not null order by partition, generation""")
# Large namespaces of the memory plugin, each with an index for each dimension of callers' vectors.
NAMESPACES_IN_NEED = text("""
    select bank_id, dimension, coalesce(v.vectors, 0) as largest, coalesce(v.vectors, 0) as vectors, i.lists,
           coalesce(i.valid, false) as valid
      from (select v.bank_id, v.dimension, count(*) as vectors
              from afterturn.bank_statistics_t s
              join afterturn.plugin_vector_t v on v.host_id = s.host_id and v.bank_id = s.bank_id
             where s.units > :exact_units / 2 and v.dimension <= :longest
             group by v.bank_id, v.dimension having count(*) > :exact_units / 2) v
      full join (select cast(split_part(n.relname, '_', 3) as uuid) as bank_id,
                        cast(split_part(n.relname, '_', 4) as int) as dimension, x.indisvalid as valid,
                        (select cast(split_part(o, '=', 2) as int) from unnest(n.reloptions) o
                          where o like 'lists=%') as lists
                   from pg_class n join pg_index x on x.indexrelid = n.oid
                  where n.relnamespace = cast('afterturn' as regnamespace)
                    and n.relname ~ '^plugin_vector_[0-9a-f]{32}_[0-9]+_near$') i using (bank_id, dimension)
     order by bank_id, dimension""")
#: Numbers of the longest vector that an index takes: pgvector keeps it there at half precision.
LONGEST_INDEXED = 4000
# Held by the builder's session until its end.
LOCK = text("select pg_try_advisory_lock(hashtextextended('afterturn.vector_indexes', 0))")
#: Finding a thousand centres takes 400 MB.
MEMORY = text("set maintenance_work_mem = '512MB'")


@dataclass(frozen=True, slots=True)
class NeededIndex:
    """The index that a table needs on some of its vectors, of this many lists; 0: none any more.

    `stem` begins its name; `which` is the condition of its rows.
    """

    table: str
    stem: str
    which: str
    dimension: int
    lists: int


def of_partition(partition: int, generation: int, dimension: int, lists: int) -> NeededIndex:
    """Return the index that a partition needs on the vectors of one generation."""
    table = f"unit_vector_{partition}"
    return NeededIndex(table, f"{table}_{generation}", f"generation = {generation}", dimension, lists)


def of_namespace(bank: UUID, dimension: int, lists: int) -> NeededIndex:
    """Return the index that a plugin namespace needs on callers' vectors of one dimension."""
    stem = f"plugin_vector_{bank.hex}_{dimension}"
    return NeededIndex("plugin_vector_t", stem, f"bank_id = '{bank}' and dimension = {dimension}", dimension, lists)


class VectorIndexes:
    """Builds the needed vector indexes one after the other, without blocking reads or writes.

    `owner_url` connects as the tables' owner. An instance belongs to one event loop.
    """

    def __init__(self, owner_url: str, exact_units: int) -> None:
        self._owner_url = owner_url
        self._exact_units = exact_units
        self._building: asyncio.Task[None] | None = None

    async def needed(self) -> list[NeededIndex]:
        """Return the partitions with a large bank and no fitting index, or with an index and no large bank.

        Likewise the namespaces of memory plugins, by the number of callers' vectors of a dimension.
        """
        async with self._owner() as connection:
            return await self._needed(connection)

    async def build_some(self) -> bool:
        """Build for some seconds; return whether this process has more to build."""
        if self._building is None:
            self._building = asyncio.create_task(self._build())
        done, _ = await asyncio.wait([self._building], timeout=LOOK_S)
        if not done:
            return True
        building, self._building = self._building, None
        building.result()
        return False

    async def close(self) -> None:
        """Cancel the build under way; the next run drops the unfinished index and begins anew."""
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

    async def _needed(self, connection: AsyncConnection) -> list[NeededIndex]:
        arguments = {"partitions": PARTITIONS, "exact_units": self._exact_units}
        partitions = await connection.execute(PARTITIONS_IN_NEED, arguments)
        namespaces = await connection.execute(
            NAMESPACES_IN_NEED, {"exact_units": self._exact_units, "longest": LONGEST_INDEXED}
        )
        return [
            *(
                of_partition(row.partition, row.generation, row.dimension, lists)
                for row in partitions
                if (lists := self._change(row)) is not None
            ),
            *(
                of_namespace(row.bank_id, row.dimension, lists)
                for row in namespaces
                if (lists := self._change(row)) is not None
            ),
        ]

    def _change(self, row: Row[Any]) -> int | None:
        """Return how many lists an index shall have; None where it is right as it is."""
        if row.largest <= self._exact_units:
            # An index is dropped only when its largest bank has shrunk to half of the limit.
            return None if 2 * row.largest > self._exact_units else 0
        lists = count_lists(row.vectors, MOST_LISTS_OF_LONG if row.dimension > LONG else MOST_LISTS)
        return None if row.valid and 2 * row.lists > lists else lists

    @asynccontextmanager
    async def _owner(self) -> AsyncGenerator[AsyncConnection]:
        engine = create_owner_engine(self._owner_url, timeout_s=5, isolation_level="AUTOCOMMIT", poolclass=NullPool)
        async with engine.connect() as connection:
            yield connection


def count_lists(vectors: int, most: int = MOST_LISTS) -> int:
    """Return how many lists an index of this many vectors has."""
    return max(1, min(vectors // LIST_UNITS, most))


def index_statements(needed: NeededIndex) -> Sequence[str]:
    """Return the statements that build or drop an index without blocking writers; readers use the old one meanwhile.

    An unfinished index of an earlier run is dropped first.
    """
    gone = f"drop index concurrently if exists afterturn.{needed.stem}_near"
    if not needed.lists:
        return (gone,)
    over = f"cast(embedding as public.halfvec({needed.dimension}))"
    build = f"using ivfflat (({over}) public.halfvec_ip_ops) with (lists = {needed.lists}) where {needed.which}"
    return (
        f"drop index concurrently if exists afterturn.{needed.stem}_coming",
        f"create index concurrently {needed.stem}_coming on afterturn.{needed.table} {build}",
        gone,
        f"alter index afterturn.{needed.stem}_coming rename to {needed.stem}_near",
    )
