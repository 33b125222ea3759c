"""The service's error body becomes a typed error, screened: a refusal must not repeat what was refused."""

from collections.abc import Iterable, Mapping
from typing import Any

from afterturn_client.errors import BY_CODE, ApiError

#: Length, in characters, from which a piece of the request's text in an error message counts as repeated from it.
TELLING = 16
#: Private texts shorter than this are not searched for: they occur in any sentence.
SHORT = 4
LONGEST_MESSAGE = 500

_TRANSIENT = frozenset({429, 502, 503, 504})
_STATUS_OF = {
    "BAD_REQUEST": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "TURN_CONFLICT": 409,
    "TURN_ENDED": 409,
    "TURN_ERASED": 409,
    "KEY_REUSED": 409,
    "BANK_IN_USE": 409,
    "TARGET_TAKEN": 409,
    "GENERATION_REFUSED": 409,
    "SNAPSHOT_REFUSED": 409,
    "RESOURCE_BUSY": 409,
    "VERSION_CONFLICT": 409,
    "PARENT_MISSING": 409,
    "RESTORED_ELSEWHERE": 409,
    "PAYLOAD_TOO_LARGE": 413,
    "INVALID_ARGUMENT": 422,
    "INVALID_EVENT": 422,
    "RATE_LIMITED": 429,
    "QUOTA_EXCEEDED": 429,
    "UNAVAILABLE": 503,
}
_CODE_OF = {status: code for code, status in reversed(_STATUS_OF.items())}


def read_error(value: object, status: int | None, retry_after: float | None, private: Iterable[str]) -> ApiError:
    """Return the error that a body `{"error": {...}, "request_id": ...}` stands for.

    `status` None takes the status from the code (an item of a batch). A body of another shape, as a proxy
    sends it, is judged by its status alone.
    """
    body: Mapping[str, Any] = value if isinstance(value, dict) else {}
    found = body.get("error")
    error: Mapping[str, Any] = found if isinstance(found, dict) else {}
    code = error.get("code") if error.get("code") in BY_CODE else None
    code = code or _CODE_OF.get(status or 0, "UNKNOWN")
    status = status if status is not None else _STATUS_OF.get(code, 0)
    retryable = error.get("retryable")
    request_id = body.get("request_id")
    return BY_CODE.get(code, ApiError)(
        screen_message(error.get("message"), private),
        status=status,
        code=code,
        retryable=retryable if isinstance(retryable, bool) else status in _TRANSIENT,
        retry_after=retry_after,
        request_id=screen_message(request_id, private) if isinstance(request_id, str) else None,
    )


def find_error_in_success(value: Mapping[str, Any], private: Iterable[str]) -> ApiError | None:
    """Return the error that a portal's answer is under the status 200: one with `code` or `statusCode`; else None."""
    if not {"code", "statusCode"} & value.keys():
        return None
    status, code = value.get("statusCode"), value.get("code")
    status = status if isinstance(status, int) and not isinstance(status, bool) else None
    code = code if isinstance(code, str) and len(code) <= TELLING * 2 else _CODE_OF.get(status or 0, "UNKNOWN")
    return BY_CODE.get(code, ApiError)(screen_message(value.get("message"), private), status=status or 200, code=code)


def screen_message(message: object, private: Iterable[str]) -> str:
    """Return a message fit for a log: one printable line, or '' when it repeats a private text."""
    if not isinstance(message, str):
        return ""
    line = "".join(sign if sign.isprintable() else " " for sign in message[:LONGEST_MESSAGE]).strip()
    runs = {line[at : at + TELLING] for at in range(max(0, len(line) - TELLING + 1))}
    for text in private:
        if not isinstance(text, str):
            continue  # a wrong argument, which the service refuses
        if (len(text) >= SHORT and text in line) or any(run in text for run in runs):
            return ""
    return line
