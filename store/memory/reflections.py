"""What a bank came to see, by its id: recall answers with reflections, and like units they are shown and forgotten.

A reflection says what the facts it was drawn from say. To have it say something else, to pin it or to erase it for
good, one turns to these.
"""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.errors import IsReflection, NotFound
from store.expiry import BANK_LASTS, BEFORE_ALL, LASTS
from store.log.append import append_events
from store.log.catalog import EventType
from store.log.envelope import Origin, build_offer

#: What recall calls it, and where it comes from.
KIND, ORIGIN = "observation", "reflection"

# As recall, it tells nothing once one of its facts is gone, whether or not a stage has seen that.
GET = text(f"""
    select r.content, r.aggregate_version as version, r.update_ts as updated_at, e.position, s.sources
      from afterturn.agent_memory_reflection_t r,
           lateral (select e.position, e.data->'sourceMemoryIds' as sources
                      from afterturn.event_store_t e
                     where e.host_id = :host
                       and e.aggregate_id = cast(:host as uuid) || '|' || cast(:bank as uuid) || '|' || r.reflection_id
                       and e.event_type in ('{EventType.REFLECTION_CREATED}', '{EventType.REFLECTION_UPDATED}')
                     order by e.aggregate_version desc limit 1) e,
           lateral (select array(select cast(f as uuid) from jsonb_array_elements_text(e.sources) f) as sources) s
     where r.host_id = :host and r.bank_id = :bank and r.reflection_id = :reflection and r.active
       and not exists (select from unnest(s.sources) f(unit_id)
                         left join afterturn.agent_memory_unit_t u
                           on u.host_id = :host and u.bank_id = :bank and u.unit_id = f.unit_id and u.active
                          and {LASTS.format(of="u")}
                        where u.unit_id is null)
       and {BANK_LASTS}""")  # noqa: S608 - constants of ours

#: Whether nothing has ended that the reflection `r` was drawn from.
STILL_DRAWN = f"""not exists (
    select from jsonb_array_elements_text((
               select e.data->'sourceMemoryIds' from afterturn.event_store_t e
                where e.host_id = r.host_id and e.aggregate_id = concat_ws('|', r.host_id, r.bank_id, r.reflection_id)
                  and e.event_type in ('{EventType.REFLECTION_CREATED}', '{EventType.REFLECTION_UPDATED}')
                order by e.aggregate_version desc limit 1)) f(id)
      join afterturn.agent_memory_unit_t u
        on u.host_id = r.host_id and u.bank_id = r.bank_id and u.unit_id = cast(f.id as uuid)
     where u.expires_at <= cast(:now as timestamptz))"""  # noqa: S608 - constants of ours


@dataclass(frozen=True, slots=True)
class ReflectionSources:
    """A living reflection, where it stands in the log, and the facts it was drawn from."""

    reflection_id: UUID
    content: str = field(repr=False)
    version: int
    updated_at: datetime
    position: int
    sources: tuple[UUID, ...]


async def read_reflection(
    connection: AsyncConnection, host: UUID, bank: UUID, reflection: UUID, now: datetime = BEFORE_ALL
) -> ReflectionSources:
    """Return a living reflection, all of whose facts last at `now`. Raises NotFound, for any other unit, too."""
    place = {"host": host, "bank": bank, "reflection": reflection, "now": now}
    row = (await connection.execute(GET, place)).one_or_none()
    if row is None:
        raise NotFound("no such unit")
    return ReflectionSources(reflection, row.content, row.version, row.updated_at, row.position, tuple(row.sources))


async def refuse_reflection(connection: AsyncConnection, host: UUID, bank: UUID, unit: UUID) -> None:
    """Say that a reflection is nothing that one changes. Raises IsReflection where the id is that of one."""
    try:
        found = await read_reflection(connection, host, bank, unit)
    except NotFound:
        return
    raise IsReflection(found.sources)


async def forget_reflection(connection: AsyncConnection, origin: Origin, reflection: UUID) -> int:
    """Forget a reflection; returns the position of its end. It is made anew when its facts change. Raises NotFound.

    The caller holds the lock of the bank's entities, as every writer of reflections does.
    """
    found = await read_reflection(connection, origin.host, origin.bank, reflection)
    data = {"reflectionId": str(reflection)}
    event = build_offer(origin, EventType.REFLECTION_DELETED, (reflection,), data, nth=str(found.version + 1))
    position = await append_events(connection, origin.host, [event])
    if position is None:
        raise NotFound("no such unit")
    return position
