"""Reads a unit's links: kind, strength and direction."""

from datetime import datetime
from typing import Any
from uuid import UUID

from afterturn_client.contract.units import Link
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


def _select_links(near: ColumnElement[UUID], far: ColumnElement[UUID], direction: str) -> Select[*tuple[Any, ...]]:
    way = literal(direction).label("direction")
    return select(far.label("unit_id"), _LINK.link_type.label("kind"), _LINK.weight, way).where(
        in_bank(LINK), near == bindparam("unit"), _LINK.active
    )


_FOUND = union_all(
    _select_links(_LINK.from_unit_id, _LINK.to_unit_id, "to"),
    _select_links(_LINK.to_unit_id, _LINK.from_unit_id, "from"),
).subquery("found")
_STRONGEST = (
    select(_FOUND)
    .order_by(_FOUND.c.weight.desc(), _FOUND.c.kind, _FOUND.c.unit_id)
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
    select(_STRONGEST, func.left(_OTHER.c.content, EXCERPT).label("excerpt"))
    .join(_OTHER, true())
    .order_by(_STRONGEST.c.weight.desc(), _STRONGEST.c.kind, _STRONGEST.c.unit_id)
)


async def read_links(connection: AsyncConnection, host: UUID, bank: UUID, unit: UUID, now: datetime) -> list[Link]:
    """Return a unit's strongest links, in both directions, to units that have not ended; in a tenant's transaction."""
    arguments = {"host": host, "bank": bank, "unit": unit, "now": now}
    return [Link(**row) for row in (await connection.execute(LINKS, arguments)).mappings()]
