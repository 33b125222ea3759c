"""Locks and reads that a stage needs before it appends derived events, inside the tenant's transaction."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.identity import event_id
from store.log.locks import ENTER_LOG, hold_lock, share_lock

# Writers of derived state take a common lock on a bank's entities. Otherwise a writer that waited for another's entity
# after its own first write would commit later with a smaller xid, and a log reader would see a link before its entity.
LOCK = select(ENTER_LOG, share_lock("bank", "bank"), hold_lock("entities", "bank"))
FIRST_FACTS = text("""
    select u.turn_id, min(u.position) as position
      from unnest(cast(:turns as uuid[])) as t(turn_id),
           lateral (select u.turn_id, u.position from afterturn.agent_memory_unit_t u
                     where u.host_id = :host and u.bank_id = :bank and u.turn_id = t.turn_id
                       and u.origin = 'extraction' offset 0) u
     group by 1""")
# Ended entities (without mentions) of an existing bank, with the version at which they begin again.
ENDED = text("""
    select cast(n.entity_id as text) as entity, n.aggregate_version + 1 as version
      from unnest(cast(:entities as uuid[])) as t(entity_id),
           lateral (select n.entity_id, n.aggregate_version from afterturn.agent_memory_entity_t n
                     where n.host_id = :host and n.bank_id = :bank and n.entity_id = t.entity_id and not n.active
                    offset 0) n
     where (select b.active from afterturn.agent_memory_bank_t b where b.host_id = :host and b.bank_id = :bank)""")

# Ended units, mentions and links of an existing bank, with the version at which they begin again.
RESUMED = text("""
    select t.nth,
           case t.type
           when 'AgentMemoryUnitRetainedEvent' then (
                select u.aggregate_version + 1 from afterturn.agent_memory_unit_t u
                 where u.host_id = :host and u.bank_id = :bank and u.unit_id = cast(d->>'unitId' as uuid)
                   and not u.active)
           when 'AgentMemoryUnitEntityLinkedEvent' then (
                select l.aggregate_version + 1 from afterturn.agent_memory_unit_entity_t l
                 where l.host_id = :host and l.bank_id = :bank and l.unit_id = cast(d->>'unitId' as uuid)
                   and l.entity_id = cast(d->>'entityId' as uuid) and l.removed_at is not null)
           when 'AgentMemoryLinkCreatedEvent' then (
                select k.aggregate_version + 1 from afterturn.agent_memory_link_t k
                 where k.host_id = :host and k.bank_id = :bank and k.from_unit_id = cast(d->>'fromUnitId' as uuid)
                   and k.to_unit_id = cast(d->>'toUnitId' as uuid) and k.link_type = d->>'linkType' and not k.active)
           end as version
      from unnest(cast(:types as text[]), cast(:data as text[])) with ordinality as t(type, data, nth),
           lateral (select cast(t.data as jsonb)) as x(d)
     where (select b.active from afterturn.agent_memory_bank_t b where b.host_id = :host and b.bank_id = :bank)
     order by t.nth""")


async def lock_bank(connection: AsyncConnection, bank: UUID) -> None:
    """Lock a bank against other deriving writers; call it before anything is written, a claim's row included."""
    await connection.execute(LOCK, {"bank": bank})


async def find_first_facts(
    connection: AsyncConnection, host: UUID, bank: UUID, turns: Sequence[UUID]
) -> dict[UUID, int]:
    """Return the log position of the first fact of each of these turns that has one."""
    found = await connection.execute(FIRST_FACTS, {"host": host, "bank": bank, "turns": list(turns)})
    return {row.turn_id: row.position for row in found}


async def build_beginnings(
    connection: AsyncConnection, host: UUID, bank: UUID, entities: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return the events that begin entities; for an entity that had ended, as its next version.

    Inside the tenant's transaction, after `lock_bank`.
    """
    ids = [event["data"]["entityId"] for event in entities]
    found = await connection.execute(ENDED, {"host": host, "bank": bank, "entities": ids})
    ended = {row.entity: row.version for row in found}
    return [
        _at_version(host, event, ended[entity]) if entity in ended else event
        for entity, event in zip(ids, entities, strict=True)
    ]


async def resume_ended(
    connection: AsyncConnection, host: UUID, bank: UUID, events: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return the events of units, mentions and links; where one had ended, as its next version.

    For texts that state again what was stated before. Inside the tenant's transaction, after `lock_bank`.
    """
    types = [event["type"] for event in events]
    data = [orjson.dumps(event["data"]).decode() for event in events]
    place = {"host": host, "bank": bank}
    found = (await connection.execute(RESUMED, {**place, "types": types, "data": data})).all() if events else []
    versions = {row.nth - 1: row.version for row in found if row.version is not None}
    return [_at_version(host, event, versions[n]) if n in versions else event for n, event in enumerate(events)]


def _at_version(host: UUID, event: Mapping[str, Any], version: int) -> Mapping[str, Any]:
    identity = str(event_id(host, event["subject"], str(version)))
    return {**event, "id": identity, "version": version}
