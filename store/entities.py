"""Entities of a bank and what they stand beside, as the projection stage counted them."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text

from store import identity
from store.database import Database

MOST_MENTIONED = text("""
    select e.canonical_name, coalesce(e.metadata->>'kind', '') as kind, e.mention_count, b.names, b.counts
      from (select * from afterturn.agent_memory_entity_t
             where host_id = :host and bank_id = :bank and active
             order by mention_count desc, canonical_name, entity_id limit :limit) e
      cross join lateral (
            select coalesce(array_agg(n.canonical_name), '{}') as names,
                   coalesce(array_agg(n.cooccur_count), '{}') as counts
              from (select o.canonical_name, c.cooccur_count
                      from afterturn.agent_memory_entity_cooccur_t c
                      join afterturn.agent_memory_entity_t o
                        on o.host_id = c.host_id and o.bank_id = c.bank_id and o.active
                       and o.entity_id = case c.entity_id_1 when e.entity_id then c.entity_id_2 else c.entity_id_1 end
                     where c.host_id = e.host_id and c.bank_id = e.bank_id
                       and e.entity_id in (c.entity_id_1, c.entity_id_2)
                     order by c.cooccur_count desc, o.canonical_name, o.entity_id limit :beside) n) b
     order by e.mention_count desc, e.canonical_name, e.entity_id""")


@dataclass(frozen=True, slots=True)
class EntityView:
    """An entity, how often it is mentioned, and in how many units it stands beside which others (strongest first)."""

    name: str
    kind: str
    mentions: int
    beside: tuple[tuple[str, int], ...]


async def most_mentioned(
    database: Database, host: UUID, bank: str, *, limit: int = 10, beside: int = 3
) -> Sequence[EntityView]:
    """Return the most mentioned entities of a bank with their strongest co-occurrences."""
    arguments = {"host": host, "bank": identity.bank_id(host, bank), "limit": limit, "beside": beside}
    async with database.tenant(host) as connection:
        rows = (await connection.execute(MOST_MENTIONED, arguments)).all()
    return [
        EntityView(r.canonical_name, r.kind, r.mention_count, tuple(zip(r.names, r.counts, strict=True))) for r in rows
    ]
