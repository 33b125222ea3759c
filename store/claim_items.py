"""Claiming certain items of the ledger, for whoever has just opened them: under the same leases and epochs as any."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from sqlalchemy import text

from store.database import Database
from store.ledger import Claim, LedgerRow, Stage

CLAIM_ITEMS = text("select * from afterturn.claim_items(:host, :stage, cast(:items as uuid[]), :lease, :worker)")


async def claim_items(
    database: Database, host: UUID, stage: Stage, items: Sequence[UUID], *, lease: timedelta, worker: str
) -> list[Claim]:
    """Claim those of these items that nobody holds and that were never tried; the attempt is counted.

    Only for stages in which every item is a stream of its own.
    """
    arguments = {"host": host, "stage": stage.value, "items": list(items), "lease": lease, "worker": worker}
    async with database.operator_call() as connection:
        rows = (await connection.execute(CLAIM_ITEMS, arguments)).all()
    return [Claim(host, stage, row.stream_id, row.epoch, (LedgerRow(*row[3:]),)) for row in rows]
