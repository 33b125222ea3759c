"""Refusals of the plugin's requests: each failure becomes a status and the contract's Error body.

A 5xx opens a caller's circuit breaker, so only outages and our own faults are answered with one.
"""

from collections.abc import Mapping
from typing import Any

import structlog
from starlette.responses import JSONResponse, Response

from producers.errors import Invalid, Overloaded, PermissionDenied, TooLarge, TooSlow, Unauthenticated
from store.database_outage import is_outage
from store.errors import AuthorityEnded, ErasedMeanwhile, NotFound, OverQuota, RateLimited, ResourceBusy, TurnBusy

log = structlog.get_logger("afterturn.plugin")


class Refusal(Exception):
    """A request that ends in an Error body."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.details, self.headers = status, code, details, headers

    def response(self) -> Response:
        """Return the response with the Error body."""
        body: dict[str, Any] = {"code": self.code, "message": str(self)}
        if self.details:
            body["details"] = dict(self.details)
        return JSONResponse(body, self.status, dict(self.headers or {}))


def bad_request(message: str) -> Refusal:
    """Return the refusal of a request that breaks a rule of the contract."""
    return Refusal(400, "bad_request", message)


def build_refusal(error: Exception) -> Refusal:
    """Return the refusal for an error; an unexpected one is only reported as such to the caller."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, TurnBusy):
        return Refusal(429, "unavailable", "this memory is being written by others", None, {"retry-after": "1"})
    if isinstance(error, ResourceBusy) or is_outage(error):
        log.warning("plugin_outage", error=type(error).__name__)
        return Refusal(503, "unavailable", "the database cannot answer now; whether it was done is not known")
    refusal = _refuse_request(error) or _refuse_limit(error)
    if refusal is None:
        log.error("plugin_failed", error=type(error).__name__)
    return refusal or Refusal(500, "internal", "an unexpected error")


def _refuse_request(error: Exception) -> Refusal | None:
    """Return the refusal for an error of authentication, permission, target or input, else None."""
    match error:
        case Unauthenticated() | AuthorityEnded():
            return Refusal(401, "forbidden", str(error), None, {"www-authenticate": "Bearer"})
        case PermissionDenied():
            return Refusal(403, "forbidden", str(error))
        case NotFound() | ErasedMeanwhile():
            return Refusal(404, "not_found", str(error) or "it does not exist")
        case Invalid():
            return Refusal(400, "bad_request", str(error), error.details)
    return None


def _refuse_limit(error: Exception) -> Refusal | None:
    """Return the refusal for an exceeded limit of size, rate or time, else None."""
    match error:
        case TooLarge():
            return Refusal(413, "bad_request", str(error), error.details, {"connection": "close"})
        case TooSlow():
            return Refusal(408, "bad_request", str(error), None, {"connection": "close"})
        case Overloaded() | RateLimited():
            return Refusal(429, "unavailable", str(error), None, {"retry-after": str(error.retry_after_s)})
        case OverQuota():
            # A 5xx or 429 would make the caller repeat a request that cannot succeed.
            return Refusal(403, "forbidden", str(error), getattr(error, "details", None))
    return None
