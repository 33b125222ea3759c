"""Builds the query that lists memories of namespaces, page by page."""

from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Integer,
    Select,
    Text,
    Uuid,
    bindparam,
    case,
    cast,
    desc,
    func,
    literal_column,
    or_,
    select,
    true,
    tuple_,
    union_all,
)

from store.page_bytes import cut_to_bytes
from store.plugin.marks import (
    TEXTS,
    is_memory_of,
    is_pinned,
    memory_columns,
    order_listed,
    read_field,
    read_id,
    unnest_banks,
)
from store.schema import TIME, UNIT
from store.sql_constants import ZERO, inline

# The last memory of the previous page: whether it is pinned, its time, id and bank. All are null for the first page.
_PINNED, _AT, _ID = bindparam("pinned", type_=Boolean), bindparam("at", type_=TIME), bindparam("id", type_=Uuid)
_LAST_BANK = bindparam("bank", type_=Uuid)
_LETTER, _LIMIT = bindparam("letter", type_=Text), bindparam("limit", type_=Integer)
_LATEST = literal_column("'infinity'", TIME)
_LAST_ID = cast(inline("ffffffff-ffff-ffff-ffff-ffffffffffff"), Uuid)
_UNIT, _BANK = UNIT.alias("u"), unnest_banks()


def _select_part(
    part: ColumnElement[bool], at: ColumnElement[Any], memory_id: ColumnElement[Any]
) -> Select[*tuple[Any, ...]]:
    """Select the next pinned or other memories of a bank: those older than `at`, and of equal time, of a smaller id.

    Of equal id, a bank that comes after that of the previous page's last memory.
    """
    place = tuple_(_UNIT.c.mentioned_at, read_id(_UNIT), _BANK.c.bank_id)
    holds_letter = func.strpos(func.lower(_UNIT.c.content), func.lower(_LETTER)) > ZERO
    return (
        select(_UNIT)
        .where(
            is_memory_of(_BANK.c.bank_id, _UNIT),
            part,
            or_(_LETTER.is_(None), holds_letter),
            _UNIT.c.mentioned_at <= at,
            place < tuple_(at, memory_id, _LAST_BANK),
        )
        .order_by(_UNIT.c.mentioned_at.desc(), read_id(_UNIT).desc())
        .limit(_LIMIT)
    )


def _select_page() -> Select[*tuple[Any, ...]]:
    """Select a page; each bank is read by two indexes, `unit_pinned_by_plugin` and `unit_listed_by_plugin`."""
    behind = func.coalesce(_AT, _LATEST)
    pinned = _select_part(
        is_pinned(_UNIT) & func.coalesce(_PINNED, true()), at=behind, memory_id=func.coalesce(_ID, _LAST_ID)
    )
    plain = _select_part(
        read_field(_UNIT, "pin").is_distinct_from(inline("true")),
        at=case((_PINNED, _LATEST), else_=behind),
        memory_id=case((func.coalesce(_PINNED, true()), _LAST_ID), else_=_ID),
    )
    page = union_all(pinned, plain).lateral("u")
    return (
        select(*memory_columns(page))
        .join_from(_BANK, page, true())
        .order_by(desc("pinned"), page.c.mentioned_at.desc(), read_id(page).desc(), page.c.bank_id.desc())
        .limit(_LIMIT)
    )


LIST = cut_to_bytes(_select_page(), order_listed, TEXTS)
