"""What a stage that derives events must hold and may ask, inside the tenant's transaction."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

# Deriving writers of one bank meet on its entities. Whoever waited for another's entity after it had written itself
# would commit later under a smaller xid, and a reader of the log would see a link before the entity it names.
LOCK = text("""
    select pg_advisory_xact_lock_shared(afterturn.lock_key('bank', :bank)),
           pg_advisory_xact_lock(afterturn.lock_key('entities', :bank))""")
FIRST_FACTS = text("""
    select u.turn_id, min(u.position) as position
      from unnest(cast(:turns as uuid[])) as t(turn_id),
           lateral (select u.turn_id, u.position from afterturn.agent_memory_unit_t u
                     where u.host_id = :host and u.bank_id = :bank and u.turn_id = t.turn_id
                       and u.origin = 'extraction' offset 0) u
     group by 1""")


async def lock(connection: AsyncConnection, bank: UUID) -> None:
    """Take a bank's place in the order of the log; call it before anything is written."""
    await connection.execute(LOCK, {"bank": bank})


async def first_facts(connection: AsyncConnection, host: UUID, bank: UUID, turns: Sequence[UUID]) -> dict[UUID, int]:
    """Return where the first fact of each turn that has one stands in the log."""
    found = await connection.execute(FIRST_FACTS, {"host": host, "bank": bank, "turns": list(turns)})
    return {row.turn_id: row.position for row in found}
