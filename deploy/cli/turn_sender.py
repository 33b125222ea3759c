"""Sends parsed turns to the service in batches, in order, with retries until a time-out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from afterturn_client import (
    Afterturn,
    AfterturnError,
    ApiError,
    BadRequestError,
    InvalidArgumentError,
    InvalidRequestError,
    PayloadTooLargeError,
    PermissionDeniedError,
    RefusedTurn,
    TurnConflictError,
    TurnReceipt,
    UnauthenticatedError,
)

from deploy.cli.parsed import BadLine, Parsed, ParsedTurn
from deploy.local.deferred_interrupt import defer_interrupt
from embeddings.retry import Again, Backoff, Retry

T = TypeVar("T")

#: Half of the service's default limit for a request, which leaves room for field names.
BATCH_BYTES = 1_048_576
BATCH_TURNS = 100
PATIENCE_S = 120.0
#: Number of failed attempts after which `waiting` is called.
TOLD_FAILURES = 2
SEND_AGAIN = Retry(Backoff(0.2, factor=2.0, longest_s=2.0))

#: Refusals of a whole batch, whose halves may be accepted.
_REFUSED = (BadRequestError, InvalidArgumentError, InvalidRequestError, PayloadTooLargeError, PermissionDeniedError)
_SERVER_ERROR = 500


class ServiceUnresponsive(Exception):
    """The service gave no final answer within the time-out; the text is that of its last error."""


class _StillWrittenError(AfterturnError):
    """Some turns of the batch have no final answer yet."""


@dataclass
class SentCounts:
    """Counts of a file's turns and bad lines; each is exactly one of accepted, duplicate, conflict and bad."""

    accepted: int = 0
    duplicates: int = 0
    conflicts: int = 0
    bad_lines: list[BadLine] = field(default_factory=list)
    position: int = 0
    last_line: int = 0

    @property
    def read(self) -> int:
        """Number of turns and bad lines with a final result."""
        return self.accepted + self.duplicates + self.conflicts + len(self.bad_lines)

    @property
    def clean(self) -> bool:
        """Whether nothing was refused."""
        return not self.conflicts and not self.bad_lines


@dataclass
class TurnSender:
    """Sends turns and counts the results.

    A batch without an answer is sent again for up to `patience_s` seconds; a turn that is sent twice is stored
    once. `report` is called with every bad line and conflict, `waiting` when the service does not answer,
    `advanced` with the number of bytes read.
    """

    client: Afterturn
    report: Callable[[int, str], None]
    waiting: Callable[[str], None]
    advanced: Callable[[int], None]
    patience_s: float = PATIENCE_S
    tally: SentCounts = field(default_factory=SentCounts)

    def feed(self, items: Iterable[Parsed]) -> None:
        """Send all turns in batches and count the results in `tally`. Raises ServiceUnresponsive."""
        batch: list[ParsedTurn] = []
        size = 0
        for item in items:
            if isinstance(item, BadLine):
                self._note_bad_line(item.line, item.error)
                continue
            if batch and (len(batch) == BATCH_TURNS or size + item.size > BATCH_BYTES):
                self._send(batch)
                batch, size = [], 0
            batch.append(item)
            size += item.size
        self._send(batch)

    def _send(self, batch: Sequence[ParsedTurn]) -> None:
        """Send a batch and count the answers; a refused batch is halved until the refused turns are alone."""
        if not batch:
            return
        try:
            self._send_until_settled(batch)
        except _REFUSED as error:
            problem = str(error)
        else:
            return
        if len(batch) == 1:
            with defer_interrupt():
                self._note_bad_line(batch[0].line, problem)
                self._note_passed(batch)
            return
        middle = len(batch) // 2
        self._send(batch[:middle])
        self._send(batch[middle:])

    def _send_until_settled(self, batch: Sequence[ParsedTurn]) -> None:
        """Send until every turn of the batch has a final answer."""
        failures = 0

        def send() -> None:
            nonlocal batch
            batch = self._count_results(batch, self.client.add_turns([item.turn for item in batch]))
            if batch:
                raise _StillWrittenError("some turns are being written by another request")

        def again(error: Exception) -> float | None:
            nonlocal failures
            asked_s = retry_after_s(error)
            failures += asked_s is not None
            if failures == TOLD_FAILURES:
                self.waiting(str(error))
            return asked_s

        call_with_retry(send, again, self.patience_s)

    def _count_results(
        self, batch: Sequence[ParsedTurn], results: Sequence[TurnReceipt | RefusedTurn]
    ) -> Sequence[ParsedTurn]:
        """Count the answers, report progress up to the first unanswered turn, and return the turns to send again."""
        with defer_interrupt():
            left = [item for item, result in zip(batch, results, strict=True) if not self._count_result(item, result)]
            self._note_passed(batch[: batch.index(left[0])] if left else batch)
        return left

    def _count_result(self, item: ParsedTurn, result: TurnReceipt | RefusedTurn) -> bool:
        """Count an answer; return False when the turn must be sent again."""
        if isinstance(result, TurnReceipt):
            self.tally.accepted += not result.duplicate
            self.tally.duplicates += result.duplicate
            self.tally.position = max(self.tally.position, result.position)
        elif isinstance(result.error, TurnConflictError):
            self.tally.conflicts += 1
            self.report(item.line, "this turn was accepted before with another body")
        elif is_transient(result.error):
            return False
        else:
            self._note_bad_line(item.line, str(result.error))
        return True

    def _note_bad_line(self, line: int, error: str) -> None:
        self.tally.bad_lines.append(BadLine(line, error))
        self.report(line, error)

    def _note_passed(self, batch: Sequence[ParsedTurn]) -> None:
        if not batch:
            return
        self.tally.last_line = batch[-1].line
        self.advanced(batch[-1].offset)


def call_with_retry(call: Callable[[], T], again: Again, patience_s: float) -> T:
    """Return a call's result; repeat it for up to `patience_s` seconds. Raises ServiceUnresponsive, or a refusal."""
    try:
        return SEND_AGAIN.call_blocking(call, again, deadline=SEND_AGAIN.clock() + patience_s)
    except AfterturnError as error:
        if retry_after_s(error) is None:
            raise
        problem = str(error)
    raise ServiceUnresponsive(problem)


def retry_after_s(error: Exception) -> float | None:
    """Return the least number of seconds until a call may be repeated; None after a refusal."""
    if not isinstance(error, AfterturnError) or isinstance(error, (UnauthenticatedError, *_REFUSED)):
        return None
    if isinstance(error, ApiError):
        return (error.retry_after or 0.0) if is_transient(error) else None
    return 0.0


def is_transient(error: ApiError) -> bool:
    """Return whether the next attempt may succeed."""
    return error.retryable or error.status >= _SERVER_ERROR
