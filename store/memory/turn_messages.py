"""Reads the messages of turns from their units, for the stages."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from store.database import Database

READ = "select * from afterturn.turn_messages($1, $2, $3)"


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
    expires_at: datetime | None = None


async def read_messages(
    database: Database, host: UUID, turns: Sequence[tuple[UUID, UUID]]
) -> dict[UUID, list[TurnMessage]]:
    """Return the messages of turns (bank and turn) by turn, in their order, without forgotten ones."""
    by_turn: dict[UUID, list[TurnMessage]] = {turn: [] for _, turn in turns}
    for row in await database.fetch(READ, host, [bank for bank, _ in turns], list(by_turn)):
        message = TurnMessage(*row)
        by_turn[message.turn_id].append(message)
    return by_turn
