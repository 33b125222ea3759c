"""An operator's decisions about ledger rows: requeue, drop, or settle a delivery.

Everything is written as the rows' tenant, with an audit row for each in the same transaction. Work under way is
fenced: a worker that had claimed a row finds its claim gone, and its result is rolled back.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from uuid import UUID

import orjson
from sqlalchemy import TextClause, text

from store.database import Database
from store.derived import locks
from store.errors import NotFound, NotSettled
from store.ledger.listing import LedgerEntry
from store.ledger.stages import Stage

#: Rows that one transaction changes.
TOGETHER = 200
#: Characters of a reason that are kept.
REASON_LENGTH = 200

RETRY = text("select afterturn.retry_rows(:host, :stage, cast(:items as uuid[]), :by)")
DROP = text("select afterturn.drop_rows(:host, :stage, cast(:items as uuid[]), :by, :reason)")
RESOLVE = text("""
    select afterturn.resolve_delivery(
        :host, :item, cast(:from as text[]), :status, :reason, cast(:payload as jsonb))""")

#: Deliveries a person may settle.
UNSETTLED = ("add_unknown", "add_failed", "flush_failed")


class DeliveryFinding(StrEnum):
    """What a person found out about a delivery at the gateway."""

    DELIVERED = "delivered"
    NOT_DELIVERED = "not-delivered"


class NextStep(StrEnum):
    """What happens next to a settled delivery."""

    FLUSH = "flush"
    DONE = "done"
    RETRY = "retry"
    SKIP = "skip"


#: The status after a settlement, by the status before and the finding.
SETTLEMENTS = {
    (DeliveryFinding.DELIVERED, NextStep.FLUSH): {"add_unknown": "added", "add_failed": "added"},
    (DeliveryFinding.DELIVERED, NextStep.DONE): dict.fromkeys(UNSETTLED, "flushed"),
    (DeliveryFinding.NOT_DELIVERED, NextStep.RETRY): {
        "add_unknown": "pending",
        "add_failed": "pending",
        "flush_failed": "added",
    },
    (DeliveryFinding.NOT_DELIVERED, NextStep.SKIP): dict.fromkeys(UNSETTLED, "skipped"),
}


@dataclass(frozen=True, slots=True)
class ChangeCount:
    """How many rows were `seen` and how many changed; the others may not be changed, or changed meanwhile."""

    seen: int = 0
    changed: int = 0

    @property
    def refused(self) -> int:
        """The number of rows that were not changed."""
        return self.seen - self.changed

    def __add__(self, other: "ChangeCount") -> "ChangeCount":
        return ChangeCount(self.seen + other.seen, self.changed + other.changed)


class Quarantine:
    """Changes ledger rows for an operator, whose name `by` the audit keeps."""

    def __init__(self, database: Database, by: str) -> None:
        self._database = database
        self._by = by

    async def retry(self, entries: Sequence[LedgerEntry]) -> ChangeCount:
        """Requeue dead rows with a fresh attempt budget; of deliveries only those that were surely not processed."""
        return await self._change(RETRY, entries, None)

    async def drop(self, entries: Sequence[LedgerEntry], reason: str) -> ChangeCount:
        """End rows as skipped, for a reason (its first 200 characters are kept); deliveries under way stay."""
        return await self._change(DROP, entries, reason[:REASON_LENGTH])

    async def resolve(self, delivery: LedgerEntry, found: DeliveryFinding, then: NextStep) -> str:
        """Settle a delivery by a person's finding; return its new status.

        Raises NotSettled when its status does not allow that (any more), NotFound when the row is gone.
        """
        ways = SETTLEMENTS.get((found, then), {})
        status = ways.get(delivery.state)
        if status is None:
            raise NotSettled(
                f"a delivery in state {delivery.state} cannot be settled as {found}, then {then}: its state must be one"
                f" of {', '.join(ways) or 'none'}; `afterturn gateway list` shows the state"
            )
        payload = {"by": self._by, "as": found.value, "then": then.value}
        arguments = {
            "host": delivery.host_id,
            "item": delivery.item_id,
            "from": [delivery.state],
            "status": status,
            "reason": f"an operator found it {found}" if then in {NextStep.DONE, NextStep.SKIP} else None,
            "payload": orjson.dumps(payload).decode(),
        }
        async with self._database.tenant(delivery.host_id) as connection:
            before = (await connection.execute(RESOLVE, arguments)).scalar()
        if before is None:
            raise NotFound("there is no such delivery any more: its row was erased or pruned")
        if before != delivery.state:
            raise NotSettled(
                f"the delivery changed meanwhile and is in state {before} now: look it up again, then settle it"
            )
        return status

    async def resolve_all(
        self, deliveries: Sequence[LedgerEntry], found: DeliveryFinding, then: NextStep
    ) -> ChangeCount:
        """Settle deliveries by one finding; those whose status does not allow that (any more) stay."""
        changed = 0
        for one in deliveries:
            with suppress(NotSettled, NotFound):
                await self.resolve(one, found, then)
                changed += 1
        return ChangeCount(len(deliveries), changed)

    async def _change(self, statement: TextClause, entries: Sequence[LedgerEntry], reason: str | None) -> ChangeCount:
        changed = 0
        ordered = sorted(entries, key=lambda e: (e.host_id, e.bank_id, e.stage, e.item_id))
        for (host, bank, stage), group in groupby(ordered, key=lambda e: (e.host_id, e.bank_id, e.stage)):
            arguments = {"host": host, "stage": stage.value, "items": [e.item_id for e in group], "by": self._by}
            if reason is not None:
                arguments["reason"] = reason
            changed += await self._changed(statement, host, bank, stage, arguments)
        return ChangeCount(len(entries), changed)

    async def _changed(
        self, statement: TextClause, host: UUID, bank: UUID, stage: Stage, arguments: dict[str, object]
    ) -> int:
        async with self._database.tenant(host) as connection:
            if stage in {Stage.EXTRACTION, Stage.PROJECTION}:
                # Waits for the bank's only writer, so that its work is never cut off halfway.
                await locks.lock_bank(connection, bank)
            return len((await connection.execute(statement, arguments)).all())
