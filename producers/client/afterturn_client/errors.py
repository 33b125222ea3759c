"""Every error this package raises. None carries a key, a query or the text of a message.

AfterturnError
├── InvalidRequestError        refused here, before anything was sent (also a ValueError)
├── UnreachableError           no connection was made: the service has seen nothing
├── UnknownOutcomeError        it was sent and no answer came: it may or may not have happened
├── InvalidAnswerError         the answer is not what the contract says
├── ApiError                   the service said no: status, code, retryable, retry_after, request_id
│   ├── BadRequestError            400 BAD_REQUEST
│   ├── UnauthenticatedError       401 UNAUTHENTICATED
│   ├── PermissionDeniedError      403 PERMISSION_DENIED
│   ├── NotFoundError              404 NOT_FOUND (a foreign id is not found either)
│   ├── TurnConflictError          409 TURN_CONFLICT: another body
│   │   ├── TurnErasedError            409 TURN_ERASED: the turn was erased, and its name is used up
│   │   └── TurnEndedError             409 TURN_ENDED: its bank has ended since, and its name is used up
│   ├── ResourceBusyError          409 RESOURCE_BUSY: another request writes it right now
│   ├── EventRefusedError          409, 422: the service's log does not take what the call would write
│   ├── PayloadTooLargeError       413 PAYLOAD_TOO_LARGE
│   ├── InvalidArgumentError       422 INVALID_ARGUMENT
│   ├── RateLimitedError           429 RATE_LIMITED
│   ├── QuotaExceededError         429 QUOTA_EXCEEDED
│   └── UnavailableError           503 UNAVAILABLE: the write could not be made durable
├── QueueFullError             the turn queue holds as much as it may: length, limit; nothing was published
├── QueueRefusedError          the turn queue's server let the publisher not in, or not write; nothing was published
└── GatewayError               a call to a Memory Gateway failed: operation, path, status, category
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

Category = Literal["timeout", "connection", "unauthorized", "http_error", "invalid_json", "invalid_response"]


class AfterturnError(Exception):
    """Base class of the errors of this package."""


class InvalidRequestError(AfterturnError, ValueError):
    """The call cannot be sent as it is; nothing was sent."""


class UnreachableError(AfterturnError):
    """No connection to the service was made; repeating is safe."""


class UnknownOutcomeError(AfterturnError):
    """The request left and no answer came; only an idempotent call may be repeated."""


class InvalidAnswerError(AfterturnError):
    """The service answered with something other than its contract promises."""


class ApiError(AfterturnError):
    """The service answered with an error.

    `status` is the HTTP status, `code` the wire code, `retryable` what the service said about it,
    `retry_after` seconds or None, `request_id` what to quote to the operator.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str,
        retryable: bool = False,
        retry_after: float | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(f"{status} {code}: {message}" if message else f"{status} {code}")
        self.message = message
        self.status = status
        self.code = code
        self.retryable = retryable
        self.retry_after = retry_after
        self.request_id = request_id


class BadRequestError(ApiError):
    """400: the body is not the JSON it should be."""


class UnauthenticatedError(ApiError):
    """401: no key, or a wrong one."""


class PermissionDeniedError(ApiError):
    """403: the key's scope does not reach this bank or this kind of call."""


class NotFoundError(ApiError):
    """404: it does not exist, or not for this key."""


class TurnConflictError(ApiError):
    """409: a turn of this name was accepted with another body."""


class TurnErasedError(TurnConflictError):
    """409: the turn was erased; to store it anew, send it under another name."""


class TurnEndedError(TurnConflictError):
    """409: the turn's bank has ended since it was accepted; to store it anew, send it under another name."""


class ResourceBusyError(ApiError):
    """409: the turn is being written by another request; try again shortly."""


class EventRefusedError(ApiError):
    """The service's log does not take what the call would write.

    422 INVALID_EVENT; 409 VERSION_CONFLICT, PARENT_MISSING, RESTORED_ELSEWHERE (its operator runs `afterturn doctor`).
    """


class PayloadTooLargeError(ApiError):
    """413: over a size limit, which the message names."""


class InvalidArgumentError(ApiError):
    """422: a field's value is not allowed."""


class RateLimitedError(ApiError):
    """429: too fast; `retry_after` says when to come back."""


class QuotaExceededError(ApiError):
    """429: the quota is used up; coming back soon does not help."""


class UnavailableError(ApiError):
    """503: the service cannot do it durably right now."""


#: The exception class of each wire code.
BY_CODE: Mapping[str, type[ApiError]] = MappingProxyType(
    {
        "BAD_REQUEST": BadRequestError,
        "UNAUTHENTICATED": UnauthenticatedError,
        "PERMISSION_DENIED": PermissionDeniedError,
        "NOT_FOUND": NotFoundError,
        "TURN_CONFLICT": TurnConflictError,
        "TURN_ENDED": TurnEndedError,
        "TURN_ERASED": TurnErasedError,
        "RESOURCE_BUSY": ResourceBusyError,
        "VERSION_CONFLICT": EventRefusedError,
        "KEY_REUSED": EventRefusedError,
        "BANK_IN_USE": EventRefusedError,
        "TARGET_TAKEN": EventRefusedError,
        "GENERATION_REFUSED": EventRefusedError,
        "SNAPSHOT_REFUSED": EventRefusedError,
        "PARENT_MISSING": EventRefusedError,
        "RESTORED_ELSEWHERE": EventRefusedError,
        "INVALID_EVENT": EventRefusedError,
        "PAYLOAD_TOO_LARGE": PayloadTooLargeError,
        "INVALID_ARGUMENT": InvalidArgumentError,
        "RATE_LIMITED": RateLimitedError,
        "QUOTA_EXCEEDED": QuotaExceededError,
        "UNAVAILABLE": UnavailableError,
    }
)


class QueueFullError(AfterturnError):
    """The turn queue holds as many messages as it may; nothing was published. Publish again when workers caught up.

    `length` is how many wait (None where the server itself is out of memory), `limit` how many may.
    """

    def __init__(self, length: int | None, limit: int) -> None:
        super().__init__(
            "the queue's server is out of memory" if length is None else f"{length} messages wait, {limit} may"
        )
        self.length = length
        self.limit = limit


class QueueRefusedError(AfterturnError):
    """The turn queue's server refused a login or a command; the message says which right or setting it needs."""


class GatewayError(AfterturnError):
    """A call to a Memory Gateway did not succeed. Nothing of the request or the reply is kept.

    `unsent` is True when no connection was made, so the gateway has seen nothing. `unknown` is True when
    the request left and its outcome is unknown. With neither, the gateway answered: `status`
    is its HTTP status and `retry_after` its Retry-After in seconds, if it sent one.
    """

    def __init__(
        self,
        *,
        operation: str,
        path: str,
        category: Category,
        status: int | None = None,
        unsent: bool = False,
        retry_after: float | None = None,
    ) -> None:
        answered = f"status {status}" if status is not None else ("not sent" if unsent else "outcome unknown")
        super().__init__(f"memory gateway {operation} ({path}): {category}, {answered}")
        self.operation = operation
        self.path = path
        self.category: Category = category
        self.status = status
        self.unsent = unsent
        self.retry_after = retry_after

    @property
    def unknown(self) -> bool:
        """Whether the request may have been carried out although no answer came."""
        return self.status is None and not self.unsent
