"""The messages of turns as the stages read them, from their units."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from store.database import Database

READ = text("select * from afterturn.turn_messages(:host, :bank, cast(:turns as uuid[]))")


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


async def messages(database: Database, host: UUID, bank: UUID, turns: Sequence[UUID]) -> dict[UUID, list[TurnMessage]]:
    """Return the messages of turns of one bank, by turn and in their order; forgotten ones are not there."""
    by_turn: dict[UUID, list[TurnMessage]] = {turn: [] for turn in turns}
    async with database.call() as connection:
        for row in await connection.execute(READ, {"host": host, "bank": bank, "turns": list(turns)}):
            by_turn[row.turn_id].append(TurnMessage(*row))
    return by_turn
