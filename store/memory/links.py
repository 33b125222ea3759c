"""Reads a unit's links: kind, strength and direction."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Select, bindparam, func, literal, select, true, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from store.expiry import row_lasts
from store.schema import LINK, UNIT, in_bank
from store.sql_constants import ZERO

#: The most links of a unit that are returned, the strongest ones.
MOST = 20
#: How many characters of the other unit's text are returned.
EXCERPT = 200

_LINK = LINK.c


def _select_links(near: ColumnElement[UUID], far: ColumnElement[UUID], *, onward: bool) -> Select[*tuple[Any, ...]]:
    way = literal(onward).label("onward")
    return select(far.label("unit_id"), _LINK.link_type, _LINK.weight, way).where(
        in_bank(LINK), near == bindparam("unit"), _LINK.active
    )


_FOUND = union_all(
    _select_links(_LINK.from_unit_id, _LINK.to_unit_id, onward=True),
    _select_links(_LINK.to_unit_id, _LINK.from_unit_id, onward=False),
).subquery("found")
_STRONGEST = (
    select(_FOUND)
    .order_by(_FOUND.c.weight.desc(), _FOUND.c.link_type, _FOUND.c.unit_id)
    .limit(MOST)
    .cte("strongest")
    .prefix_with("materialized")
)
# Looked up one by one: as a plain join the planner would read all units of the bank.
_OTHER = (
    select(UNIT.c.content)
    .where(in_bank(UNIT), UNIT.c.unit_id == _STRONGEST.c.unit_id, UNIT.c.active, row_lasts(UNIT))
    .offset(ZERO)
    .lateral("other")
)
LINKS = (
    select(_STRONGEST, func.left(_OTHER.c.content, EXCERPT))
    .join(_OTHER, true())
    .order_by(_STRONGEST.c.weight.desc(), _STRONGEST.c.link_type, _STRONGEST.c.unit_id)
)


@dataclass(frozen=True, slots=True)
class Linked:
    """The unit at a link's other end; `onward`: the link points to it, not from it. `kind` is one of seven types."""

    unit_id: UUID
    kind: str
    weight: float
    onward: bool
    excerpt: str = field(repr=False)


async def read_links(connection: AsyncConnection, host: UUID, bank: UUID, unit: UUID, now: datetime) -> list[Linked]:
    """Return a unit's strongest links, in both directions, to units that have not ended; in a tenant's transaction."""
    arguments = {"host": host, "bank": bank, "unit": unit, "now": now}
    return [Linked(*row) for row in await connection.execute(LINKS, arguments)]
