"""Reads a bank's entities and their co-occurrences, as the projection stage counted them."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text

from store import identity
from store.database import Database

# Mentions and co-occurrences of an alias count for its canonical entity. An entity without a profile stands for itself.
MOST_MENTIONED = text("""
    with known as materialized (
        select e.entity_id, coalesce(p.canonical_id, e.entity_id) as head, e.mention_count,
               coalesce(p.name, e.canonical_name) as name, coalesce(p.kind, e.metadata->>'kind', '') as kind
          from afterturn.agent_memory_entity_t e
          left join afterturn.entity_profile_t p
            on p.host_id = e.host_id and p.bank_id = e.bank_id and p.entity_id = e.entity_id
         where e.host_id = :host and e.bank_id = :bank and e.active
    ), heads as (
        select k.head, sum(k.mention_count)::int as mentions from known k group by 1
    ), top as (
        select h.head, h.mentions, k.name, k.kind from heads h join known k on k.entity_id = h.head
         order by h.mentions desc, k.name, h.head limit :limit
    )
    select t.name, t.kind, t.mentions, b.names, b.counts
      from top t
      cross join lateral (
            select coalesce(array_agg(n.name order by n.units desc, n.name, n.entity_id), '{}') as names,
                   coalesce(array_agg(n.units order by n.units desc, n.name, n.entity_id), '{}') as counts
              from (select o.entity_id, o.name, sum(c.cooccur_count)::int as units
                      from known m
                      join lateral (
                            select c.entity_id_2 as other, c.cooccur_count
                              from afterturn.agent_memory_entity_cooccur_t c
                             where c.host_id = :host and c.bank_id = :bank and c.entity_id_1 = m.entity_id
                            union all
                            select c.entity_id_1, c.cooccur_count from afterturn.agent_memory_entity_cooccur_t c
                             where c.host_id = :host and c.bank_id = :bank and c.entity_id_2 = m.entity_id) c on true
                      join known k on k.entity_id = c.other
                      join known o on o.entity_id = k.head
                     where m.head = t.head and o.entity_id <> t.head
                     group by o.entity_id, o.name
                     order by units desc, o.name, o.entity_id limit :beside) n) b
     order by t.mentions desc, t.name, t.head""")


@dataclass(frozen=True, slots=True)
class EntityView:
    """An entity under its canonical name, with its mentions and its strongest co-occurrences, the strongest first.

    Aliases count for their canonical entity.
    """

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
    return [EntityView(r.name, r.kind, r.mentions, tuple(zip(r.names, r.counts, strict=True))) for r in rows]
