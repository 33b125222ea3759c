"""Limits pages by bytes: a thousand long texts take too long to read and to write, and too much memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import ColumnElement, FromClause, Select, func, select

from store.sql_constants import inline

T = TypeVar("T")

#: Bytes of texts from which no further row is read; the first one is always.
MOST_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class PageRows(Generic[T]):
    """The rows of a page; `more`: there are rows behind them."""

    rows: Sequence[T]
    more: bool


def cut_to_bytes(
    found: Select[*tuple[Any, ...]],
    order: Callable[[FromClause], Sequence[ColumnElement[Any]]],
    texts: Sequence[str],
) -> Select[*tuple[Any, ...]]:
    """Return the first rows of a query with a limit, in this order, until these columns have MOST_BYTES.

    `matched` in each row: how many the query found. Texts of rows that are cut off are not read
    from their table, unless the query casts them.
    """
    rows = found.subquery("r")
    size = sum((func.coalesce(func.octet_length(rows.c[name]), inline(0)) for name in texts), inline(0))
    before = func.sum(size).over(order_by=order(rows), rows=(None, 0)) - size
    measured = select(rows, before.label("before"), func.count().over().label("matched")).subquery("m")
    kept = [column for column in measured.c if column.name != "before"]
    return select(*kept).where(measured.c.before < inline(MOST_BYTES)).order_by(*order(measured))


def build_page(rows: Sequence[Any], limit: int, build: Callable[[Any], T]) -> PageRows[T]:
    """Return the page of at most `limit` rows of `cut_to_bytes`, whose query had the limit `limit + 1`."""
    page = [build(row) for row in rows[:limit]]
    return PageRows(page, more=bool(rows) and rows[0].matched > len(page))
