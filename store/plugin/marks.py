"""Builds expressions on units that read the mark of the plugin's memories.

They match the indexes on the mark (`unit_listed_by_plugin` and others in `store/schema.py`), so they read it by `->`
and `->>`, as the indexes do, and not by subscripts.
"""

from typing import Any

from sqlalchemy import (
    ARRAY,
    Boolean,
    ColumnElement,
    FromClause,
    TableValuedAlias,
    Text,
    Uuid,
    and_,
    any_,
    bindparam,
    cast,
    column,
    false,
    func,
    or_,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB

from store.expiry import NOW
from store.schema import TIME
from store.sql_constants import inline

#: The key of the mark in a unit's metadata.
MARK = "plugin"
_MARK = inline(MARK)
#: The kinds of memories (contract v1); there is an index for each.
KINDS = ("fact", "summary", "checkpoint")
#: The columns of a memory that hold what its caller wrote (`memory_columns`).
TEXTS = ("content", "mark")
#: Parameters: the tenant; the banks that are searched; the kinds that are asked for (null: all).
HOST, BANKS = bindparam("host", type_=Uuid), bindparam("banks", type_=ARRAY(Uuid))
ASKED_KINDS = bindparam("kinds", type_=ARRAY(Text))


def read_mark(unit: FromClause) -> ColumnElement[Any]:
    """Return the mark of a unit."""
    mark: ColumnElement[Any] = unit.c["metadata"].op("->", return_type=JSONB())(_MARK)
    return mark


def read_field(unit: FromClause, name: str) -> ColumnElement[str]:
    """Return a field of a unit's mark, as text."""
    text: ColumnElement[str] = read_mark(unit).op("->>", return_type=Text())(inline(name))
    return text


def is_marked(unit: FromClause) -> ColumnElement[bool]:
    """Return the condition that a unit is an active memory of the plugin: the predicate of the indexes of memories."""
    return and_(unit.c.origin == inline("memory"), unit.c.active, has_mark(unit))


def has_mark(unit: FromClause) -> ColumnElement[bool]:
    """Return the condition that a unit was written through the plugin."""
    return func.jsonb_exists(unit.c["metadata"], _MARK)


def is_memory(unit: FromClause) -> ColumnElement[bool]:
    """Return the condition that a unit is a memory that has not expired at `now`, of a kind that is asked for."""
    return and_(
        is_marked(unit),
        func.coalesce(cast(read_field(unit, "expires_at"), TIME) > NOW, true()),
        or_(ASKED_KINDS.is_(None), read_field(unit, "kind") == any_(ASKED_KINDS)),
    )


def is_memory_of(bank: ColumnElement[Any], unit: FromClause) -> ColumnElement[bool]:
    """Return the condition `is_memory` for units of this bank, or with `any_(BANKS)` of the banks that are searched."""
    return and_(unit.c.host_id == HOST, unit.c.bank_id == bank, unit.c.seq.is_not(None), is_memory(unit))


def is_pinned(unit: FromClause) -> ColumnElement[bool]:
    """Return the condition that a memory is pinned, as in the predicate of the index of pinned memories."""
    return read_field(unit, "pin") == inline("true")


def read_id(unit: FromClause) -> ColumnElement[Any]:
    """Return the id by which a memory's caller knows it, as in the indexes that list memories."""
    return cast(read_field(unit, "id"), Uuid)


def read_pin(unit: FromClause) -> ColumnElement[bool]:
    """Return whether a memory is pinned, in a form that no index serves."""
    return func.coalesce(cast(read_field(unit, "pin"), Boolean), false())


def memory_columns(unit: FromClause) -> tuple[ColumnElement[Any], ...]:
    """Return the columns of a memory that `build_memory` takes."""
    return (
        *(unit.c[name] for name in ("bank_id", "unit_id", "turn_name", "content", "mentioned_at")),
        cast(read_mark(unit), Text).label("mark"),
        read_pin(unit).label("pinned"),
        read_id(unit).label("memory_id"),
    )


def order_by_score(unit: FromClause, score: ColumnElement[float]) -> tuple[ColumnElement[Any], ...]:
    """Return the order of found memories: pinned ones first, if `pins_first`, then by score, time and id, falling."""
    pinned = and_(read_pin(unit), bindparam("pins_first", type_=Boolean))
    return (pinned.desc(), score.desc(), unit.c.mentioned_at.desc(), read_id(unit).desc())


def order_listed(found: FromClause) -> tuple[ColumnElement[Any], ...]:
    """Return the order of rows of `memory_columns` in a listing: pinned first, then by time, id and bank, falling."""
    return (found.c.pinned.desc(), found.c.mentioned_at.desc(), found.c.memory_id.desc(), found.c.bank_id.desc())


def order_scored(found: FromClause) -> tuple[ColumnElement[Any], ...]:
    """Return the order of rows of `memory_columns` by score, time and id, falling."""
    return (found.c.score.desc(), found.c.mentioned_at.desc(), found.c.memory_id.desc())


def order_found(found: FromClause) -> tuple[ColumnElement[Any], ...]:
    """Return the order `order_by_score` of rows of `memory_columns`."""
    return (and_(found.c.pinned, bindparam("pins_first", type_=Boolean)).desc(), *order_scored(found))


def unnest_banks() -> TableValuedAlias:
    """Return the banks that are searched as rows of `bank_id`."""
    return func.unnest(BANKS).table_valued(column("bank_id", Uuid)).render_derived("b")
