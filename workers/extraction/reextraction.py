"""Rules for the extraction of a corrected message: which row is for it, its events, and the rows that follow."""

from collections.abc import Collection, Sequence
from uuid import UUID, uuid5

from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived import locks
from store.derived.readings import FollowUp
from store.ledger.ledger import LedgerRow
from store.ledger.stages import Stage
from store.memory.corrections import reread_id
from store.memory.turn_messages import TurnMessage
from workers.extraction.events import Event, list_subjects, reading_id


def find_corrected_unit(row: LedgerRow, turn: Sequence[TurnMessage], version: str | None = None) -> UUID | None:
    """Return the message whose correction a row is for; None when the row is the turn's own.

    `version`: of a model; None for rows of the rules.
    """
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
    """Return `events`; those derived from `units` resume, as their next version, what had ended.

    Inside the tenant's transaction, after `lock_bank`.
    """
    mine = {subject for unit in units for subject in list_subjects(events, unit)}
    ours = iter(await locks.resume_ended(connection, host, bank, [one for one in events if one["subject"] in mine]))
    return [next(ours) if one["subject"] in mine else one for one in events]


def build_follow_ups(row: LedgerRow) -> list[FollowUp]:
    """Return the rows that embed the facts of a corrected message, and that count these facts and its mentions."""
    item = uuid5(row.item_id, "facts")
    place = row.bank_id, row.session_id, row.turn_id, row.position, row.accepted_at
    return [FollowUp(Stage.EMBEDDING, item, item, *place), FollowUp(Stage.PROJECTION, item, row.bank_id, *place)]
