"""Claims given items of the ledger right after they were opened, under the same leases and epochs as other claims."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from store.database import Database
from store.ledger.ledger import Claim, LedgerRow
from store.ledger.stages import Stage

CLAIM_ITEMS = "select * from afterturn.claim_items($1, $2, $3, $4, $5)"


async def claim_items(
    database: Database, host: UUID, stage: Stage, items: Sequence[UUID], *, lease: timedelta, worker: str
) -> list[Claim]:
    """Claim those of these items that have no lease and were never tried; the attempt is counted.

    Only for stages in which every item is a stream of its own.
    """
    found = await database.operator_fetch(CLAIM_ITEMS, host, stage.value, list(items), lease, worker)
    return [Claim(host, stage, stream, epoch, (LedgerRow(*row),)) for _, stream, epoch, *row in found]
