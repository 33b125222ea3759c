"""The messages of turns as the stages read them, from their units."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

# A forgotten message is not there for any stage.
MESSAGES = text("""
    select u.turn_id, u.unit_id, u.ordinal, u.role, u.name, u.content, u.event_date, u.user_id, u.session_id,
           u.session_name, u.turn_name
      from afterturn.agent_memory_unit_t u
     where u.host_id = :host and u.bank_id = :bank and u.turn_id = any(cast(:turns as uuid[]))
       and u.origin = 'message' and u.active
     order by u.turn_id, u.ordinal""")


@dataclass(frozen=True, slots=True)
class TurnMessage:
    """One message of a turn; `ordinal` is its number within the turn, from 0."""

    turn_id: UUID
    unit_id: UUID
    ordinal: int
    role: str
    name: str | None
    content: str = field(repr=False)
    event_date: datetime
    user_id: UUID
    session_id: UUID
    session_name: str
    turn_name: str


async def messages(
    connection: AsyncConnection, host: UUID, bank: UUID, turns: Sequence[UUID]
) -> dict[UUID, list[TurnMessage]]:
    """Return the messages of turns of one bank, by turn and in their order, inside the tenant's transaction."""
    found = await connection.execute(MESSAGES, {"host": host, "bank": bank, "turns": list(turns)})
    by_turn: dict[UUID, list[TurnMessage]] = {turn: [] for turn in turns}
    for row in found:
        by_turn[row.turn_id].append(TurnMessage(*row))
    return by_turn
