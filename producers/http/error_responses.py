"""Translates errors to answers: the one place where a failure becomes a status, a code and a body.

No message here holds content: our own errors have none, and of any other the answer says only that it happened.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson
from afterturn_client.contract.failures import ErrorBody, Failure
from fastapi import Response
from starlette.requests import ClientDisconnect

from embeddings.errors import EmbeddingError
from producers.errors import (
    InsufficientScope,
    Invalid,
    Overloaded,
    PermissionDenied,
    TooLarge,
    TooSlow,
    Unauthenticated,
    Unavailable,
)
from store.database_outage import is_outage, is_statement_timeout, state_of
from store.errors import (
    AuthorityEnded,
    BankInUse,
    ErasedMeanwhile,
    EventRefused,
    GenerationRefused,
    InvalidDatabaseUrl,
    InvalidEvent,
    InvalidTenantName,
    IsReflection,
    KeyReused,
    LeaseLost,
    MissingParent,
    NotFound,
    NotSettled,
    OverQuota,
    PositionBeyondLog,
    QuotaExceeded,
    RateLimited,
    ReplayError,
    ResourceBusy,
    RestoredElsewhere,
    SealBroken,
    SessionDefaultsMissing,
    SnapshotRefused,
    TargetTaken,
    TurnConflict,
    TurnEnded,
    TurnErased,
)


class Malformed(Exception):
    """The body is not JSON."""


@dataclass(frozen=True, slots=True)
class Wire:
    """The answer to one kind of failure: status, code and whether to try again."""

    status: int
    code: str
    retryable: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


AGAIN = {"retry-after": "1"}
#: The header that ends a connection whose request body was not read completely.
CLOSE = {"connection": "close"}
UNAVAILABLE = Wire(503, "UNAVAILABLE", retryable=True, headers=AGAIN)
INTERNAL = Wire(500, "INTERNAL")

WIRES: Mapping[type[Exception], Wire] = {
    Malformed: Wire(400, "BAD_REQUEST"),
    ClientDisconnect: Wire(400, "BAD_REQUEST"),
    Unauthenticated: Wire(401, "UNAUTHENTICATED"),
    AuthorityEnded: Wire(401, "UNAUTHENTICATED", headers={"www-authenticate": "Bearer"}),
    PermissionDenied: Wire(403, "PERMISSION_DENIED"),
    NotFound: Wire(404, "NOT_FOUND"),
    TooSlow: Wire(408, "REQUEST_TIMEOUT", retryable=True, headers=CLOSE),
    TurnErased: Wire(409, "TURN_ERASED"),
    KeyReused: Wire(409, "KEY_REUSED"),
    BankInUse: Wire(409, "BANK_IN_USE"),
    TurnEnded: Wire(409, "TURN_ENDED"),
    TurnConflict: Wire(409, "TURN_CONFLICT"),
    EventRefused: Wire(409, "VERSION_CONFLICT"),
    MissingParent: Wire(409, "PARENT_MISSING"),
    ErasedMeanwhile: Wire(409, "ERASED"),
    NotSettled: Wire(409, "VERSION_CONFLICT"),
    # Only an operator's call raises it: its text names another tenant.
    TargetTaken: Wire(409, "TARGET_TAKEN"),
    GenerationRefused: Wire(409, "GENERATION_REFUSED"),
    SnapshotRefused: Wire(409, "SNAPSHOT_REFUSED"),
    RestoredElsewhere: Wire(409, "RESTORED_ELSEWHERE"),
    ResourceBusy: Wire(409, "RESOURCE_BUSY", retryable=True, headers=AGAIN),
    LeaseLost: Wire(409, "RESOURCE_BUSY", retryable=True, headers=AGAIN),
    TooLarge: Wire(413, "PAYLOAD_TOO_LARGE", headers=CLOSE),
    Invalid: Wire(422, "INVALID_ARGUMENT"),
    InvalidEvent: Wire(422, "INVALID_EVENT"),
    InvalidTenantName: Wire(422, "INVALID_ARGUMENT"),
    IsReflection: Wire(422, "INVALID_ARGUMENT"),
    PositionBeyondLog: Wire(422, "INVALID_ARGUMENT"),
    OverQuota: Wire(429, "QUOTA_EXCEEDED"),
    RateLimited: Wire(429, "RATE_LIMITED", retryable=True),
    Overloaded: Wire(429, "RATE_LIMITED", retryable=True),
    Unavailable: UNAVAILABLE,
    SessionDefaultsMissing: UNAVAILABLE,
    InvalidDatabaseUrl: UNAVAILABLE,
    ReplayError: UNAVAILABLE,
    # Its text is for operators.
    SealBroken: UNAVAILABLE,
    EmbeddingError: UNAVAILABLE,
}

#: Reasons why the database cannot write, by SQLSTATE.
NO_WRITES: Mapping[str, str] = {
    "53100": "the database's disk is full: nothing was written; free space and try again",
    "25006": "the database takes no writes now: its disk is nearly full, or it is a standby; nothing was written",
}

#: Error codes of refusals by the router itself, by status.
ROUTER_CODES = {400: "BAD_REQUEST", 404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}


def error_to_wire(error: Exception) -> Wire:
    """Return the kind of answer to a failure."""
    known = kind_to_wire(type(error))
    return UNAVAILABLE if known is INTERNAL and (is_outage(error) or is_statement_timeout(error)) else known


def kind_to_wire(kind: type[Exception]) -> Wire:
    """Return the error body of a kind of failure, without further details."""
    return next((WIRES[one] for one in kind.__mro__ if one in WIRES), INTERNAL)


def describe_error(error: Exception) -> Failure:
    """Return what an answer says of a failure."""
    known = error_to_wire(error)
    if known is INTERNAL:
        message = "an unexpected error; the request id leads to its line in the log"
    elif known is UNAVAILABLE and state_of(error) in NO_WRITES:
        message = NO_WRITES[state_of(error)]
    elif known is UNAVAILABLE:
        message = "the service cannot do this now; nothing was promised, try again"
    else:
        message = str(error) or known.code
    details = dict(getattr(error, "details", None) or {})
    return Failure(code=known.code, message=message, retryable=known.retryable, details=details)


def error_response(error: Exception, request_id: str) -> Response:
    """Return the response to a failure."""
    known = error_to_wire(error)
    wait = (
        {"retry-after": str(error.retry_after_s)} if isinstance(error, QuotaExceeded | RateLimited | Overloaded) else {}
    )
    challenge = {"www-authenticate": error.challenge} if isinstance(error, Unauthenticated | InsufficientScope) else {}
    return _build_response(known.status, describe_error(error), request_id, {**known.headers, **wait, **challenge})


def routing_response(status: int, message: str, request_id: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response where no route fits."""
    failure = Failure(code=ROUTER_CODES.get(status, "BAD_REQUEST"), message=message, retryable=False, details={})
    return _build_response(status, failure, request_id, headers or {})


def _build_response(status: int, error: Failure, request_id: str, headers: Mapping[str, str]) -> Response:
    body = orjson.dumps(ErrorBody(error=error, request_id=request_id))
    return Response(body, status, dict(headers), media_type="application/json")
