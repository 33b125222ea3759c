"""Retry policy of calls. Pure: a generator of attempts and pauses."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from afterturn_client.calls import ApiCall, parse_reply
from afterturn_client.errors import AfterturnError, ApiError, InvalidRequestError, UnknownOutcomeError, UnreachableError
from afterturn_client.lost_answers import describe_lost
from afterturn_client.transport import Lost, Reply, Request

T = TypeVar("T")

#: Statuses with which a proxy or load balancer answers while the service is unavailable.
_AWAY = frozenset({429, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a call is repeated, and for how long.

    `pauses_s` are the pauses in seconds before the second, third, ... attempt. With `patience_s`, the last
    pause repeats until that many seconds were spent on the call. A Retry-After longer than
    `longest_pause_s` is not waited for.
    """

    pauses_s: tuple[float, ...] = (0.2, 0.5, 1.0, 2.0)
    patience_s: float | None = None
    longest_pause_s: float = 30.0

    def __post_init__(self) -> None:
        if isinstance(self.pauses_s, str) or not isinstance(self.pauses_s, Sequence):
            raise InvalidRequestError("pauses_s must be a list of seconds, such as (0.2, 1.0); () never tries again")

    def pause(self, attempt: int, spent_s: float, asked_s: float | None) -> float | None:
        """Return the pause in seconds after the failed `attempt` (from 0), or None to give up."""
        if not self.pauses_s or (attempt >= len(self.pauses_s) and self.patience_s is None):
            return None
        pause = max(self.pauses_s[min(attempt, len(self.pauses_s) - 1)], asked_s or 0.0)
        if pause > self.longest_pause_s:
            return None
        return None if self.patience_s is not None and spent_s + pause > self.patience_s else pause


#: The policy without retries.
NEVER = RetryPolicy(pauses_s=())


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait this many seconds before going on."""

    seconds: float


def plan_attempts(
    call: ApiCall[T], policy: RetryPolicy, key: str, address: str = ""
) -> Generator[Request | Pause, Reply | Lost | None, T]:
    """Yield requests and pauses; a request is answered with its Reply or Lost, a pause with None.

    `address` is the service's, for errors. Returns what the call reads from its answer; raises the last error when it
    is not worth another try.
    """
    spent = 0.0
    attempt = 0
    while True:
        outcome = yield call.request
        if outcome is None:
            raise RuntimeError("a request must be answered with its outcome")
        spent += outcome.seconds
        result = _read_outcome(call, outcome, key, address)
        if not isinstance(result, AfterturnError):
            return result
        asked = result.retry_after if isinstance(result, ApiError) else None
        pause = policy.pause(attempt, spent, asked) if may_retry(call, result) else None
        if pause is None:
            raise result
        yield Pause(pause)
        spent += pause
        attempt += 1


def may_retry(call: ApiCall[T], error: AfterturnError) -> bool:
    """Return whether the request may be sent again: it was not carried out, or may safely be carried out twice."""
    if isinstance(error, UnreachableError):
        return True
    if isinstance(error, UnknownOutcomeError):
        return call.idempotent
    if not isinstance(error, ApiError) or not error.retryable:
        return False
    not_done = error.code in {"RESOURCE_BUSY", "RATE_LIMITED", "QUOTA_EXCEEDED"}
    return not_done or (call.idempotent and error.status in _AWAY)


def _read_outcome(call: ApiCall[T], outcome: Reply | Lost, key: str, address: str) -> T | AfterturnError:
    if isinstance(outcome, Lost):
        place = describe_lost(call.request.method, address, outcome.cause)
        return UnknownOutcomeError(place) if outcome.sent else UnreachableError(place)
    return parse_reply(call, outcome, key)
