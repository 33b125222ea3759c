"""Retry rules of failed work: delay, or quarantine; pure functions."""

from dataclasses import dataclass
from datetime import timedelta

from asyncpg.exceptions import PostgresError
from sqlalchemy.exc import SQLAlchemyError

from embeddings.errors import EmbeddingError, OtherModelLive
from embeddings.retry import Backoff
from store.database_outage import is_outage, is_statement_timeout
from store.errors import ResourceBusy
from store.ledger.ledger import LedgerRow, Outcome
from workers.errors import Permanent, WorkError

#: The longest Retry-After that is obeyed, in seconds.
LONGEST_RETRY_AFTER_S = 3600.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Decides whether a row whose work failed is tried again, and when."""

    backoff: Backoff
    max_attempts: int

    def decide_outcome(self, row: LedgerRow, error: Exception, *, alone: bool) -> Outcome:
        """Return the row's outcome; a row that failed together with others is always tried again, alone."""
        category, reason = name_failure(error)
        # Another process may have the model, and this one after a change of its settings.
        waits = isinstance(error, OtherModelLive)
        final = isinstance(error, Permanent) or (row.attempts >= self.max_attempts and not waits)
        if alone and final:
            return Outcome(row.item_id, "dead", category, reason)
        return self.retry_row(row, category, reason, getattr(error, "retry_after", None))

    def retry_row(
        self,
        row: LedgerRow,
        category: str,
        reason: str,
        retry_after: float | None = None,
        status: str = "pending",
    ) -> Outcome:
        """Return the outcome of a row that is tried again after its back-off, not before `retry_after` seconds."""
        wait = max(
            self.backoff.seconds(row.attempts),
            min(LONGEST_RETRY_AFTER_S, retry_after or 0.0),
        )
        return Outcome(row.item_id, status, category, reason, timedelta(seconds=wait))


def name_failure(error: Exception) -> tuple[str, str]:
    """Return category and reason of any error; the reason for an unforeseen one is its class name alone."""
    if isinstance(error, WorkError):
        return error.category, error.reason
    if is_statement_timeout(error):
        return "timeout", "a statement was cancelled when its time was over"
    kind = type(error).__name__
    if isinstance(error, ResourceBusy):
        return "busy", kind
    if isinstance(error, EmbeddingError):
        return "embedding", kind
    if isinstance(error, SQLAlchemyError | PostgresError) or is_outage(error):
        return "database", kind
    return "internal", kind
