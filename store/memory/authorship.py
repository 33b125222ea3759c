"""Who began a unit or a document: the user and the agent of the event with which it came into its bank.

What was drawn from messages was begun by those who said them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.errors import IsReflection, NotFound
from store.memory import reflections

# A unit's position is that of the event that began it.
_BEGUN = """
    lateral (select e.user_id, cast(e.data->>'agentDefId' as uuid) as agent from afterturn.event_store_t e
              where e.host_id = :host and e.position = u.position offset 0)"""
OF_UNITS = text(f"""
    with asked as materialized (
        select u.unit_id, coalesce(nullif(array(
                   select s.unit_id from afterturn.agent_memory_unit_t s
                    where s.host_id = :host and s.bank_id = :bank and s.unit_id = any(u.source_memory_ids)
                      and u.origin = 'extraction'), '{{}}'), array[u.unit_id]) as said
          from afterturn.agent_memory_unit_t u
         where u.host_id = :host and u.bank_id = :bank and u.unit_id = any(cast(:units as uuid[]))
    )
    select a.unit_id, b.user_id, b.agent
      from asked a, unnest(a.said) s(unit_id),
           lateral (select u.position from afterturn.agent_memory_unit_t u
                     where u.host_id = :host and u.bank_id = :bank and u.unit_id = s.unit_id offset 0) u, {_BEGUN} b""")  # noqa: S608 - put together from constants
OF_DOCUMENT = text("""
    select e.user_id, cast(e.data->>'agentDefId' as uuid) as agent from afterturn.event_store_t e
     where e.host_id = :host
       and e.aggregate_id = cast(:host as uuid) || '|' || cast(:bank as uuid) || '|' || cast(:doc as uuid)
       and afterturn.begins(e.event_type)
     order by e.aggregate_version limit 1""")
IN_DOCUMENT = text(f"""
    select distinct b.user_id, b.agent
      from afterturn.agent_memory_unit_t u, {_BEGUN} b
     where u.host_id = :host and u.bank_id = :bank and u.doc_id = :doc and u.active""")  # noqa: S608 - as above


@dataclass(frozen=True, slots=True)
class Author:
    """Who began something: a user, the host's own where none was named; and the agent whose key was used, if any."""

    user: UUID
    agent: UUID | None


async def authors_of_units(connection: AsyncConnection, host: UUID, bank: UUID, units: Sequence[UUID]) -> set[Author]:
    """Return who began these units or reflections of a bank, forgotten ones included.

    Inside the tenant's transaction. Raises NotFound when one of them is not there.
    """
    place = {"host": host, "bank": bank}
    rows = (await connection.execute(OF_UNITS, {**place, "units": list(units)})).all()
    found = {Author(row.user_id, row.agent) for row in rows}
    for unit in set(units) - {row.unit_id for row in rows}:
        try:
            await reflections.refuse_reflection(connection, host, bank, unit)
        except IsReflection:
            # The projection stage makes them, for no user or agent in particular.
            found.add(Author(identity.user_id(host, None), None))
        else:
            raise NotFound("no such unit")
    return found


async def authors_of_document(connection: AsyncConnection, host: UUID, bank: UUID, doc: UUID) -> set[Author]:
    """Return who began a document, and who began the living units that stand in it or name it. Raises NotFound.

    Inside the tenant's transaction.
    """
    place = {"host": host, "bank": bank, "doc": doc}
    begun = (await connection.execute(OF_DOCUMENT, place)).one_or_none()
    if begun is None:
        raise NotFound("no such document")
    rows = [begun, *(await connection.execute(IN_DOCUMENT, place)).all()]
    return {Author(row.user_id, row.agent) for row in rows}
