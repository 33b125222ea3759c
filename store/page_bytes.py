"""Limits what one query reads of memories: a hundred of them may have 200 MB."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Boolean, ColumnElement, FromClause, Select, and_, bindparam, func, select

from store.sql_constants import inline

#: Bytes of texts and marks from which no further memory is read; the first one is always.
MOST_BYTES = 4 * 1024 * 1024

Order = Callable[[FromClause], Sequence[ColumnElement[Any]]]


def as_listed(found: FromClause) -> Sequence[ColumnElement[Any]]:
    """Return the order of a listing: pinned memories first, then by time and id, falling."""
    return (found.c.pinned.desc(), found.c.mentioned_at.desc(), found.c.memory_id.desc())


def as_scored(found: FromClause) -> Sequence[ColumnElement[Any]]:
    """Return the order by score, time and id, falling."""
    return (found.c.score.desc(), found.c.mentioned_at.desc(), found.c.memory_id.desc())


def as_found(found: FromClause) -> Sequence[ColumnElement[Any]]:
    """Return the order of a search: by score, pinned memories first if `pins_first`."""
    return (and_(found.c.pinned, bindparam("pins_first", type_=Boolean)).desc(), *as_scored(found))


def cut_to_bytes(found: Select[*tuple[Any, ...]], order: Order) -> Select[*tuple[Any, ...]]:
    """Return the first memories of a query with a limit, in this order, until they have MOST_BYTES.

    `matched` in each row: how many the query found. A memory that was cut off is not read from its table.
    """
    rows = found.subquery("r")
    size = func.octet_length(rows.c.content) + func.octet_length(rows.c.mark)
    before = func.sum(size).over(order_by=order(rows), rows=(None, 0)) - size
    measured = select(rows, before.label("before"), func.count().over().label("matched")).subquery("m")
    kept = [column for column in measured.c if column.name != "before"]
    return select(*kept).where(measured.c.before < inline(MOST_BYTES)).order_by(*order(measured))
