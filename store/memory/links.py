"""What a unit is linked with: what each link is of, how strong, which way it goes."""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.expiry import LASTS

#: Of a unit that many are linked with, the strongest links alone.
MOST = 20
#: Characters that are told of what stands at the other end.
EXCERPT = 200

LINKS = text(f"""
    with found as materialized (
        select k.to_unit_id as unit_id, k.link_type, k.weight, true as onward from afterturn.agent_memory_link_t k
         where k.host_id = :host and k.bank_id = :bank and k.from_unit_id = :unit and k.active
        union all
        select k.from_unit_id, k.link_type, k.weight, false from afterturn.agent_memory_link_t k
         where k.host_id = :host and k.bank_id = :bank and k.to_unit_id = :unit and k.active
    ), strongest as materialized (
        select f.* from found f order by f.weight desc, f.link_type, f.unit_id limit :most
    )
    select s.unit_id, s.link_type, s.weight, s.onward, left(u.content, :excerpt)
      from strongest s,
           lateral (select u.content from afterturn.agent_memory_unit_t u
                     where u.host_id = :host and u.bank_id = :bank and u.unit_id = s.unit_id and u.active
                       and {LASTS.format(of="u")} offset 0) u
     order by s.weight desc, s.link_type, s.unit_id""")  # noqa: S608 - put together from constants


@dataclass(frozen=True, slots=True)
class Linked:
    """The unit at a link's other end; `onward`: the link goes there, not from there. `kind` is one of seven types."""

    unit_id: UUID
    kind: str
    weight: float
    onward: bool
    excerpt: str = field(repr=False)


async def links_of(connection: AsyncConnection, host: UUID, bank: UUID, unit: UUID, now: datetime) -> list[Linked]:
    """Return the strongest links from and to a unit with what has not ended, inside the tenant's transaction."""
    arguments = {"host": host, "bank": bank, "unit": unit, "most": MOST, "excerpt": EXCERPT, "now": now}
    return [Linked(*row) for row in await connection.execute(LINKS, arguments)]
