"""Entities and how strongly they belong together, as the projection stage counted them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from store import identity
from store.database import Database

STRONGEST = text("""
    select a.canonical_name as one, b.canonical_name as other, c.cooccur_count, c.last_cooccurred,
           a.mention_count as one_mentions, b.mention_count as other_mentions
      from afterturn.agent_memory_entity_cooccur_t c
      join afterturn.agent_memory_entity_t a
        on a.host_id = c.host_id and a.bank_id = c.bank_id and a.entity_id = c.entity_id_1 and a.active
      join afterturn.agent_memory_entity_t b
        on b.host_id = c.host_id and b.bank_id = c.bank_id and b.entity_id = c.entity_id_2 and b.active
     where c.host_id = :host and c.bank_id = :bank
     order by c.cooccur_count desc, c.last_cooccurred desc, c.entity_id_1, c.entity_id_2
     limit :limit""")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two entities that stand in the same units: in how many, when last, and how often each is mentioned."""

    one: str
    other: str
    count: int
    last: datetime
    one_mentions: int
    other_mentions: int


async def strongest_pairs(database: Database, host: UUID, bank: str, limit: int = 10) -> Sequence[Pair]:
    """Return the pairs of a bank that co-occur most, strongest first; ties by the newest, then by id."""
    arguments = {"host": host, "bank": identity.bank_id(host, bank), "limit": limit}
    async with database.tenant(host) as connection:
        return [Pair(*row) for row in await connection.execute(STRONGEST, arguments)]
