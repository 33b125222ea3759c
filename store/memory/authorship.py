"""Reads the author of a unit or document: user and agent of its first event.

The authors of a derived unit are the authors of its source messages.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import (
    FromClause,
    Text,
    Uuid,
    any_,
    bindparam,
    cast,
    column,
    func,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, array
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.selectable import LateralFromClause

from store import identity
from store.errors import IsReflection, NotFound
from store.memory import reflections
from store.schema import EVENT_STORE, UNIT, in_bank
from store.sql_constants import ONE, ZERO, inline

_UNIT, _EVENT = UNIT.c, EVENT_STORE.c
_BEGAN = (_EVENT.user_id, cast(_EVENT.data["agentDefId"].astext, Uuid).label("agent"))
_HOST = _EVENT.host_id == bindparam("host")


def _select_beginner(unit: FromClause) -> LateralFromClause:
    """Return the query of a unit's author: that of the event at the unit's position, which began it.

    Looked up event by event: as a plain join the planner would read all of the host's.
    """
    return select(*_BEGAN).where(_HOST, _EVENT.position == unit.c.position).offset(ZERO).lateral("began")


_OF_DOC = _select_beginner(UNIT)
IN_DOCUMENT = (
    select(_OF_DOC.c.user_id, _OF_DOC.c.agent)
    .distinct()
    .join_from(UNIT, _OF_DOC, true())
    .where(in_bank(UNIT), _UNIT.doc_id == bindparam("doc"), _UNIT.active)
)
OF_DOCUMENT = (
    select(*_BEGAN)
    .where(
        in_bank(EVENT_STORE),
        _EVENT.aggregate_key == cast(bindparam("doc", type_=Uuid), Text),
        func.afterturn.begins(_EVENT.event_type),
    )
    .order_by(_EVENT.aggregate_version)
    .limit(ONE)
)
# For a fact, the authors of its sources.
_SAID = UNIT.alias("said")
_SOURCES = select(_SAID.c.unit_id).where(
    in_bank(_SAID), _SAID.c.unit_id == any_(_UNIT.source_memory_ids), _UNIT.origin == "extraction"
)
_ASKED = (
    select(
        _UNIT.unit_id,
        func.coalesce(func.nullif(func.array(_SOURCES.scalar_subquery()), inline("{}")), array([_UNIT.unit_id])).label(
            "said"
        ),
    )
    .where(in_bank(UNIT), _UNIT.unit_id == any_(bindparam("units", type_=ARRAY(Uuid))))
    .cte("asked")
    .prefix_with("materialized")
)
_EACH = func.unnest(_ASKED.c.said).table_valued(column("unit_id", Uuid)).render_derived("each")
_SAYING = (
    select(_SAID.c.position).where(in_bank(_SAID), _SAID.c.unit_id == _EACH.c.unit_id).offset(ZERO).lateral("saying")
)
_OF_UNIT = _select_beginner(_SAYING)
OF_UNITS = (
    select(_ASKED.c.unit_id, _OF_UNIT.c.user_id, _OF_UNIT.c.agent)
    .join_from(_ASKED, _EACH, true())
    .join(_SAYING, true())
    .join(_OF_UNIT, true())
)


@dataclass(frozen=True, slots=True)
class Author:
    """The author of a unit or document: a user (the host's system user where none was named) and the key's agent."""

    user: UUID
    agent: UUID | None


async def find_unit_authors(connection: AsyncConnection, host: UUID, bank: UUID, units: Sequence[UUID]) -> set[Author]:
    """Return the authors of these units or reflections of a bank, forgotten ones included.

    Inside the tenant's transaction. Raises NotFound when one of them is not there.
    """
    place = {"host": host, "bank": bank}
    rows = (await connection.execute(OF_UNITS, {**place, "units": list(units)})).all()
    found = {Author(row.user_id, row.agent) for row in rows}
    for unit in set(units) - {row.unit_id for row in rows}:
        try:
            await reflections.refuse_reflection(connection, host, bank, unit)
        except IsReflection:
            # Reflections are derived by the projection stage, for no user or agent in particular.
            found.add(Author(identity.user_id(host, None), None))
        else:
            raise NotFound("no such unit")
    return found


async def find_document_authors(connection: AsyncConnection, host: UUID, bank: UUID, doc: UUID) -> set[Author]:
    """Return the authors of a document and of the living units that belong to it. Raises NotFound.

    Inside the tenant's transaction.
    """
    place = {"host": host, "bank": bank, "doc": doc}
    begun = (await connection.execute(OF_DOCUMENT, place)).one_or_none()
    if begun is None:
        raise NotFound("no such document")
    rows = [begun, *(await connection.execute(IN_DOCUMENT, place)).all()]
    return {Author(row.user_id, row.agent) for row in rows}
