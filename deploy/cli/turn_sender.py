"""Sends parsed turns to the service in batches, in order, with retries until a time-out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
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
    TurnEndedError,
    TurnErasedError,
    TurnReceipt,
    UnauthenticatedError,
)
from afterturn_client.kept_turns import keep_turn

from deploy.ingest_formats.parsed import BadLine, Parsed, ParsedTurn
from deploy.local.deferred_interrupt import defer_interrupt
from embeddings.retry import Again, Backoff, Retry

T = TypeVar("T")

#: Half of the service's default limit for a request, which leaves room for field names.
BATCH_BYTES = 1_048_576
BATCH_TURNS = 100
PATIENCE_S = 120.0
#: Number of failed attempts after which `waiting` is called.
TOLD_FAILURES = 2
#: What is reported of the first turn that was erased; the others are counted.
ERASED = (
    "this turn was erased, and an erased turn is not stored again under its name; to store the file anew, give it a "
    "session of its own (--session NAME), or turns in JSON Lines other turn_ids"
)
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
    """Counts of a file's turns and bad lines; each is exactly one of accepted, duplicate, conflict, erased and bad."""

    accepted: int = 0
    duplicates: int = 0
    conflicts: int = 0
    erased: int = 0
    bad_lines: list[BadLine] = field(default_factory=list)
    position: int = 0
    last_line: int = 0

    @property
    def read(self) -> int:
        """Number of turns and bad lines with a final result."""
        return self.accepted + self.duplicates + self.conflicts + self.erased + len(self.bad_lines)

    @property
    def clean(self) -> bool:
        """Whether nothing was refused."""
        return not self.conflicts and not self.erased and not self.bad_lines


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
            # A turn that may be sent by its other name is sent alone, so that it keeps its place.
            alone = item.otherwise is not None
            if batch and (alone or len(batch) == BATCH_TURNS or size + item.size > BATCH_BYTES):
                self._send(batch)
                batch, size = [], 0
            if alone:
                self._send([item])
                continue
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
        elif isinstance(result.error, TurnEndedError):
            self.tally.conflicts += 1
            self.report(item.line, str(result.error))
        elif isinstance(result.error, TurnConflictError):
            self._settle_conflict(item, erased=isinstance(result.error, TurnErasedError))
        elif is_transient(result.error):
            return False
        else:
            self._note_bad_line(item.line, str(result.error))
        return True

    def _settle_conflict(self, item: ParsedTurn, *, erased: bool) -> None:
        """Count a turn whose name is known with another body; of one that has grown, send what is new.

        A coding agent's turn has grown within its answer. Its hooks do the same with it.
        A turn whose first words are said more than once in its file is sent by its other name.
        """
        if erased:
            self.tally.erased += 1
            if self.tally.erased == 1:
                self.report(item.line, ERASED)
        elif item.kept is not None:
            is_new = keep_turn(self.client, item.turn.session_id, item.kept)
            self.tally.accepted += is_new
            self.tally.duplicates += not is_new
        elif (rest := self._find_rest(item)) is not None:
            self._send([rest])
        elif item.otherwise is not None:
            self._send([replace(item, turn=replace(item.turn, turn_id=item.otherwise), otherwise=None)])
        else:
            self.tally.conflicts += 1
            self.report(item.line, "this turn was accepted before with another body")

    def _find_rest(self, item: ParsedTurn) -> ParsedTurn | None:
        """Return the messages that follow those stored under the turn's name, as a turn; None if these differ.

        The service compares: only a stored beginning is answered as a duplicate.
        """
        messages = item.turn.messages
        for known in range(len(messages) - 1, 0, -1) if item.may_grow else ():
            [result] = self.client.add_turns([replace(item.turn, messages=messages[:known])])
            if isinstance(result, TurnReceipt):
                rest = replace(item.turn, messages=messages[known:], turn_id=f"{item.turn.turn_id}+{known}")
                return replace(item, turn=rest, otherwise=None)
        return None

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
