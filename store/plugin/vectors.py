"""Stores the vectors of the plugin's callers: of any dimension, at unit length, compared within one dimension."""

import hashlib
import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from pgvector.sqlalchemy import VECTOR
from sqlalchemy import ARRAY, REAL, bindparam, cast, delete, literal, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from store.log.refusals import translate_refusals
from store.schema import PLUGIN_VECTOR, in_bank

KEEP_ONE = delete(PLUGIN_VECTOR).where(
    in_bank(PLUGIN_VECTOR),
    PLUGIN_VECTOR.c.session_id == bindparam("session"),
    PLUGIN_VECTOR.c.digest != bindparam("digest"),
)
# A loose index scan: one probe for each dimension, however many vectors there are.
DIMENSIONS = text("""
    with recursive d(bank_id, dimension) as (
        select b.bank_id, (select min(v.dimension) from afterturn.plugin_vector_t v
                            where v.host_id = :host and v.bank_id = b.bank_id)
          from unnest(cast(:banks as uuid[])) b(bank_id)
         union all
        select d.bank_id, (select min(v.dimension) from afterturn.plugin_vector_t v
                            where v.host_id = :host and v.bank_id = d.bank_id and v.dimension > d.dimension)
          from d where d.dimension is not null)
    select distinct dimension from d where dimension is not null order by 1""")
# The namespaces with an index over vectors of a dimension (store/derived/vector_indexes.py), and how many of its lists
# are probed to read about `read` vectors; a list counts as 180 at least (store/sql/vector_indexes.sql).
LISTS = text("""
    select b.bank_id, cast(greatest(1, ceil(l.lists * least(
               1, cast(:read as float8) / greatest(n.reltuples, 180 * l.lists)))) as int) as lists
      from unnest(cast(:banks as uuid[])) b(bank_id)
      join pg_class n on n.oid = to_regclass(format('afterturn.plugin_vector_%s_%s_near',
                                                    replace(cast(b.bank_id as text), '-', ''),
                                                    cast(:dimension as int)))
      join pg_index x on x.indexrelid = n.oid and x.indisvalid
     cross join lateral (select cast(split_part(o, '=', 2) as int) as lists from unnest(n.reloptions) o
                          where o like 'lists=%') l""")
# Without sorts the planner takes the index for any estimate of the bank's size, provided that it knows the bank: a
# generic plan cannot tell which partition has an index.
BEGIN_LISTS = text("""
    select set_config('enable_sort', 'off', true), set_config('ivfflat.probes', :lists, true),
           set_config('plan_cache_mode', 'force_custom_plan', true)""")
END_LISTS = text("select set_config('enable_sort', 'on', true), set_config('plan_cache_mode', 'auto', true)")


@dataclass(frozen=True, slots=True)
class CallersVector:
    """A vector at unit length (float32), its original length, and its digest, by which a memory names it."""

    numbers: Sequence[float] = field(repr=False)
    norm: float
    digest: str

    @property
    def dimension(self) -> int:
        """The vector's number of components."""
        return len(self.numbers)


def normalise_vector(numbers: Sequence[float]) -> CallersVector:
    """Return a caller's vector at unit length; its numbers must be finite and not all zero.

    The numbers are divided by the largest before their squares are summed, so that no square overflows or underflows.
    """
    largest = max(map(abs, numbers))
    scaled = np.array([number / largest for number in numbers], dtype=np.float64)
    length = float(np.sqrt(scaled @ scaled))
    unit = (scaled / length).astype(np.float32)
    norm = min(largest * length, math.nextafter(math.inf, 0))
    # The digest includes the length: vectors of one direction and different lengths are different.
    digest = hashlib.sha256(unit.tobytes() + repr(norm).encode()).hexdigest()[:32]
    return CallersVector(unit.tolist(), norm, digest)


async def insert_vector(
    connection: AsyncConnection, place: dict[str, Any], vector: CallersVector, now: datetime
) -> None:
    """Write a vector; `place` has host, bank and session. It is read as long as its memory names its digest.

    Raises QuotaExceeded.
    """
    insertion = insert(PLUGIN_VECTOR).values(
        host_id=place["host"],
        bank_id=place["bank"],
        session_id=place["session"],
        digest=vector.digest,
        dimension=vector.dimension,
        norm=vector.norm,
        # The driver can encode arrays of numbers.
        embedding=cast(literal(list(vector.numbers), ARRAY(REAL)), VECTOR),
        written_at=now,
    )
    with translate_refusals():
        await connection.execute(insertion.on_conflict_do_nothing())


async def keep_only(connection: AsyncConnection, place: dict[str, Any], digest: str) -> None:
    """Delete all vectors of a memory but the one with this digest."""
    await connection.execute(KEEP_ONE, {**place, "digest": digest})


async def read_dimensions(connection: AsyncConnection, host: UUID, banks: Sequence[UUID]) -> list[int]:
    """Return the dimensions of the vectors in these banks."""
    return list((await connection.execute(DIMENSIONS, {"host": host, "banks": list(banks)})).scalars())


async def read_lists(
    connection: AsyncConnection, banks: Sequence[UUID], dimension: int, read: int
) -> Sequence[tuple[UUID, int]]:
    """Return the banks with an index over vectors of a dimension, and how many lists hold about `read` vectors."""
    rows = await connection.execute(LISTS, {"banks": list(banks), "dimension": dimension, "read": read})
    return [(row.bank_id, row.lists) for row in rows]


@asynccontextmanager
async def probe_lists(connection: AsyncConnection, lists: int) -> AsyncGenerator[None]:
    """Let statements in the block, within the transaction, probe this number of lists of a vector index."""
    await connection.execute(BEGIN_LISTS, {"lists": str(lists)})
    yield
    await connection.execute(END_LISTS)
