"""Builds the queries of callers' vectors: the nearest memories by them, and the vectors themselves.

Only the vector whose digest its memory names is read: others belong to other versions of the memory.
"""

from functools import lru_cache
from typing import Any
from uuid import UUID

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
    literal_column,
    select,
)

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
from store.schema import PLUGIN_VECTOR, UNIT, same_bank
from store.sql_constants import inline

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
