"""Vectors of the plugin's callers: stored at unit length, of any dimension, and compared within one dimension.

Only the vector whose digest its memory names is read: others belong to other versions of the memory.
"""

import hashlib
import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

import numpy as np
from pgvector.sqlalchemy import HALFVEC, VECTOR
from sqlalchemy import (
    ARRAY,
    REAL,
    ColumnElement,
    Double,
    FromClause,
    Integer,
    Select,
    Uuid,
    any_,
    bindparam,
    cast,
    delete,
    literal,
    literal_column,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from store.log.refusals import translate_refusals
from store.page_bytes import cut_to_bytes
from store.plugin.marks import (
    BANKS,
    HOST,
    TEXTS,
    is_memory_of,
    is_pinned,
    memory_columns,
    order_by_score,
    order_found,
    order_scored,
    read_field,
    read_id,
)
from store.schema import PLUGIN_VECTOR, UNIT, in_bank, same_bank
from store.sql_constants import inline

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


_VECTOR, _UNIT = PLUGIN_VECTOR.alias("v"), UNIT.alias("u")
_NUMBERS, _LIMIT = bindparam("numbers", type_=ARRAY(REAL)), bindparam("limit", type_=Integer)
_COLUMNS, _IS_MEMORY = memory_columns(_UNIT), is_memory_of(any_(BANKS), _UNIT)


def _select_of_memories(vectors: FromClause, *columns: ColumnElement[Any]) -> Select[*tuple[Any, ...]]:
    """Select from vectors and the memories that name them."""
    return (
        select(*columns)
        .join_from(vectors, _UNIT, same_bank(_UNIT, vectors, "session_id"))
        .where(_IS_MEMORY, read_field(_UNIT, "vector") == vectors.c.digest)
    )


def _measure_nearness(vectors: FromClause) -> ColumnElement[float]:
    distance: ColumnElement[float] = vectors.c.embedding.op("<=>", return_type=Double())(cast(_NUMBERS, VECTOR))
    return (literal_column("1", Double) - distance).label("score")


_SCORE = _measure_nearness(_VECTOR)
_BY_ALL_VECTORS = (
    _select_of_memories(_VECTOR, *_COLUMNS, _SCORE)
    .where(
        _VECTOR.c.host_id == HOST,
        _VECTOR.c.bank_id == any_(BANKS),
        _VECTOR.c.dimension == bindparam("dimension"),
    )
    .order_by(*order_by_score(_UNIT, _SCORE))
    .limit(_LIMIT)
)
#: The nearest memories by all vectors of a dimension.
NEAREST = cut_to_bytes(_BY_ALL_VECTORS, order_found, TEXTS)
#: The nearest pinned memories.
PINNED = cut_to_bytes(_BY_ALL_VECTORS.where(is_pinned(_UNIT)), order_found, TEXTS)
VECTORS = _select_of_memories(
    _VECTOR, _UNIT.c.unit_id, _VECTOR.c.norm, cast(_VECTOR.c.embedding, ARRAY(REAL)).label("numbers")
).where(_VECTOR.c.host_id == HOST, _UNIT.c.unit_id == any_(bindparam("units", type_=ARRAY(Uuid))))


# Each takes 42 KiB with what is compiled of it, and 4 ms to make; fewer are kept than compiled statements of all kinds
# (`store/driver_rows.py`), so that they do not displace the others.
@lru_cache(maxsize=256)
def select_nearest(bank: UUID, dimension: int) -> Select[*tuple[Any, ...]]:
    """Return the query of the nearest memories in a namespace by the index of its vectors of a dimension.

    Each index is partial, for one namespace and dimension: both are literals in the query, to match its predicate.
    """
    kind = HALFVEC(dimension)
    distance: ColumnElement[float] = cast(_VECTOR.c.embedding, kind).op("<#>", return_type=Double())(
        cast(_NUMBERS, kind)
    )
    near = (
        select(*(_VECTOR.c[name] for name in ("host_id", "bank_id", "session_id", "digest", "embedding")))
        .where(
            _VECTOR.c.host_id == HOST,
            _VECTOR.c.bank_id == inline(str(bank)),
            _VECTOR.c.dimension == inline(dimension),
        )
        .order_by(distance)
        .limit(bindparam("looked_at", type_=Integer))
        .cte("near")
        .prefix_with("materialized")
    )
    score = _measure_nearness(near)
    found = (
        _select_of_memories(near, *_COLUMNS, score)
        .order_by(score.desc(), _UNIT.c.mentioned_at.desc(), read_id(_UNIT).desc())
        .limit(_LIMIT)
    )
    return cut_to_bytes(found, order_scored, TEXTS)
