"""Recalls on a read replica: `min_position` decides whether the replica may answer."""

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

import structlog

from producers import metrics
from store.database_outage import may_pass
from store.ledger.freshness import Waiter
from store.recall.query import RecallAnswer, RecallQuery

log = structlog.get_logger("afterturn.replica")


class RecallReader(Protocol):
    """The protocol of a recaller."""

    async def recall(self, host: UUID, query: RecallQuery) -> RecallAnswer:
        """Return the recalled units, best first, and the read's freshness."""
        ...


@dataclass(frozen=True, slots=True)
class ReadReplica:
    """A streaming replica that answers recalls whose `min_position` it has replayed; the primary answers the others.

    A call waits for a replica that is behind as long as it allows, and not for one that is away.
    """

    recaller: RecallReader
    waiter: Waiter

    async def shows(self, host: UUID, position: int, wait_ms: int) -> bool:
        """Wait until the replica shows a position, at most `wait_ms`; return whether it does (False while away)."""
        try:
            shown = await self.waiter.reached(host, position, wait_ms)
        except Exception as error:  # noqa: BLE001 - what is no outage is raised again
            note_failure(error)
            return False
        if not shown:
            metrics.REPLICA_RECALLS.labels("behind").inc()
        return shown


def note_failure(error: Exception) -> None:
    """Count an outage of the replica. Raises the error where it is of another kind."""
    if not may_pass(error):
        raise error
    metrics.REPLICA_RECALLS.labels("failed").inc()
    log.warning("replica_unavailable", error=type(error).__name__, next_step="the primary answers meanwhile")
