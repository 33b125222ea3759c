"""Reads and forgets single reflections.

A reflection follows from its facts: to correct, pin or erase it, correct, pin or erase these.
"""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, FromClause, Text, Uuid, and_, bindparam, cast, column, func, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from store.errors import ConcurrencyError, IsReflection, NotFound
from store.expiry import BEFORE_ALL, bank_lasts, row_lasts
from store.log.append import append_events
from store.log.catalog import Aggregate, EventType
from store.log.envelope import Origin, build_version
from store.schema import EVENT_STORE, REFLECTION, UNIT, in_bank, same_bank
from store.sql_constants import ONE, inline

#: The kind and the origin of a reflection in answers.
KIND, ORIGIN = "observation", "reflection"


def states_value(unit: FromClause) -> ColumnElement[bool]:
    """Return the condition that a reflection's source says what it said: a corrected fact states no value."""
    value: ColumnElement[str] = unit.c["metadata"][inline("value")].astext
    return value.is_not(None)


_REFLECTION, _EVENT = REFLECTION.c, EVENT_STORE.c
# The last event of a reflection, and the facts that it was drawn from.
_TOLD = (
    select(_EVENT.position, _EVENT.data["sourceMemoryIds"].label("sources"))
    .where(
        same_bank(EVENT_STORE, REFLECTION),
        _EVENT.aggregate_key == cast(_REFLECTION.reflection_id, Text),
        _EVENT.event_type.in_((EventType.REFLECTION_CREATED, EventType.REFLECTION_UPDATED)),
    )
    .order_by(_EVENT.aggregate_version.desc())
    .limit(ONE)
    .correlate(REFLECTION)
    .lateral("told")
)
_SOURCE = func.jsonb_array_elements_text(_TOLD.c.sources).table_valued(column("id", Text)).render_derived("source")
_SOURCE_ID = cast(_SOURCE.c.id, Uuid)
# Scalar subqueries: as joins the planner would read all units of the bank for each reflection.
_SOURCE_UNIT = and_(same_bank(UNIT, REFLECTION), UNIT.c.unit_id == _SOURCE_ID)
_LIVES = (
    select(true())
    .select_from(UNIT)
    .where(_SOURCE_UNIT, UNIT.c.active, states_value(UNIT), row_lasts(UNIT))
    .correlate(REFLECTION, _SOURCE)
    .scalar_subquery()
)
#: The condition that none of a reflection's sources has ended or was corrected.
STILL_DRAWN = ~(
    select(_SOURCE.c.id).select_from(_TOLD.join(_SOURCE, true())).where(_LIVES.is_(None)).correlate(REFLECTION).exists()
)
# As in recall, a reflection without one of its facts is left out, whether or not a stage has ended it yet.
_GONE = select(_SOURCE.c.id).where(_LIVES.is_(None)).correlate(REFLECTION, _TOLD).exists()
_SOURCES = select(_SOURCE_ID).correlate(_TOLD).scalar_subquery()
GET = (
    select(
        _REFLECTION.content,
        _REFLECTION.aggregate_version.label("version"),
        _REFLECTION.update_ts.label("updated_at"),
        _TOLD.c.position,
        func.array(_SOURCES).label("sources"),
    )
    .join_from(REFLECTION, _TOLD, true())
    .where(
        in_bank(REFLECTION),
        _REFLECTION.reflection_id == bindparam("reflection"),
        _REFLECTION.active,
        ~_GONE,
        bank_lasts(),
    )
)


@dataclass(frozen=True, slots=True)
class ReflectionSources:
    """A living reflection, its log position, and the facts it was drawn from."""

    reflection_id: UUID
    content: str = field(repr=False)
    version: int
    updated_at: datetime
    position: int
    sources: tuple[UUID, ...]


async def read_reflection(
    connection: AsyncConnection, host: UUID, bank: UUID, reflection: UUID, now: datetime = BEFORE_ALL
) -> ReflectionSources:
    """Return a living reflection, none of whose facts has expired at `now`. Raises NotFound for any other id."""
    place = {"host": host, "bank": bank, "reflection": reflection, "now": now}
    row = (await connection.execute(GET, place)).one_or_none()
    if row is None:
        raise NotFound("no such unit")
    return ReflectionSources(reflection, row.content, row.version, row.updated_at, row.position, tuple(row.sources))


async def refuse_reflection(connection: AsyncConnection, host: UUID, bank: UUID, unit: UUID) -> None:
    """Raise IsReflection where the id is a reflection's, since these cannot be changed."""
    try:
        found = await read_reflection(connection, host, bank, unit)
    except NotFound:
        return
    raise IsReflection(found.sources)


async def forget_reflection(
    connection: AsyncConnection, origin: Origin, reflection: UUID, version: int | None = None
) -> int:
    """Forget a reflection; return the log position of its end. It is derived anew when its facts change.

    Raises NotFound, ConcurrencyError (another version than `version`). The caller holds the lock of the bank's
    entities, as every writer of reflections does.
    """
    found = await read_reflection(connection, origin.host, origin.bank, reflection)
    if version not in (None, found.version):
        raise ConcurrencyError(Aggregate.REFLECTION.value, version, found.version)
    event = build_version(origin, EventType.REFLECTION_DELETED, (reflection,), found.version + 1)
    position = await append_events(connection, origin.host, [event])
    if position is None:
        raise NotFound("no such unit")
    return position
