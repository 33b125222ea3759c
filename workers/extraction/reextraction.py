"""Extracts a corrected message again."""

from collections.abc import Collection, Sequence
from uuid import UUID, uuid5

from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived import locks
from store.derived.extraction_runs import FollowUp
from store.ledger.ledger import LedgerRow
from store.ledger.stages import Stage
from store.memory.corrections import reread_id
from store.memory.turn_messages import TurnMessage
from workers.extraction.events import Event, of_unit, reading_id


def corrected_unit(row: LedgerRow, turn: Sequence[TurnMessage], version: str | None = None) -> UUID | None:
    """Return the message whose correction a row is for, of the rules or of a model's version; None for a turn's own."""
    if row.item_id == (row.turn_id if version is None else reading_id(row.turn_id, version)):
        return None
    for message in turn:
        item = reread_id(message.unit_id, row.position)
        if row.item_id == (item if version is None else reading_id(item, version)):
            return message.unit_id
    return None


async def resume_ended(
    connection: AsyncConnection, host: UUID, bank: UUID, events: Sequence[Event], units: Collection[UUID]
) -> list[Event]:
    """Return the events, those that follow from these messages as the next version of what ended.

    Inside the tenant's transaction, after `lock_bank`.
    """
    mine = {subject for unit in units for subject in of_unit(events, unit)}
    ours = iter(await locks.resume_ended(connection, host, bank, [one for one in events if one["subject"] in mine]))
    return [next(ours) if one["subject"] in mine else one for one in events]


def after_correction(row: LedgerRow) -> list[FollowUp]:
    """Return the rows that have the facts of a corrected message embedded, and them and its mentions counted."""
    item = uuid5(row.item_id, "facts")
    place = row.bank_id, row.session_id, row.turn_id, row.position, row.accepted_at
    return [FollowUp(Stage.EMBEDDING, item, item, *place), FollowUp(Stage.PROJECTION, item, row.bank_id, *place)]
