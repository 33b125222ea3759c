"""Checks what a publisher sends. A queue gives no answer, so messages that the service would refuse are refused here.

The rules are the service's own that depend on no setting of it; the service judges each message again.
"""

from collections.abc import Mapping
from typing import Any

from afterturn_client.errors import InvalidRequestError
from afterturn_client.moments import parse_zoned
from afterturn_client.reference import strip_frames

#: Most bytes of UTF-8 of a name, by its field.
LONGEST = {"bank": 256, "session_id": 128, "turn_id": 256, "user_id": 256}
MOST_MESSAGES, MOST_TAGS, LONGEST_METADATA, LONGEST_QUERY = 1024, 64, 16_384, 16_384
ROLES = frozenset({"user", "assistant", "tool", "system", "developer", "function"})


def check_turn_body(body: Mapping[str, Any]) -> None:
    """Raise InvalidRequestError for a turn that the service would refuse."""
    _check_names(body)
    _check_storable("turn", body)
    messages = body["messages"]
    if not 0 < len(messages) <= MOST_MESSAGES:
        raise InvalidRequestError(f"a turn has 1 to {MOST_MESSAGES} messages, not {len(messages)}")
    for n, message in enumerate(messages):
        role = message.get("role")
        if "type" not in message and role not in ROLES:
            raise InvalidRequestError(f"messages[{n}]: role must be one of {', '.join(sorted(ROLES))}")
        _check_moment(f"messages[{n}].timestamp", message.get("timestamp"))
    if all(_is_blank(message) for message in messages):
        raise InvalidRequestError("messages: nothing to remember, for every message is blank or recalled text")
    _check_moment("occurred_at", body.get("occurred_at"))
    if len(body.get("tags", ())) > MOST_TAGS:
        raise InvalidRequestError(f"tags: at most {MOST_TAGS}")
    _check_metadata(body.get("metadata", {}))


def check_items_body(body: Mapping[str, Any]) -> None:
    """Raise InvalidRequestError for a turn of items that the service would refuse."""
    _check_names(body)
    _check_storable("turn", body)
    if not body["input_items"] and not body["output_items"]:
        raise InvalidRequestError("a turn has input_items, output_items, or both")


def check_question_body(body: Mapping[str, Any]) -> None:
    """Raise InvalidRequestError for a question that the service would refuse."""
    _check_names(body)
    _check_storable("question", body)
    if not body["query"].strip() or len(body["query"].encode()) > LONGEST_QUERY:
        raise InvalidRequestError(f"query must not be blank, and have at most {LONGEST_QUERY} bytes")


def _check_names(body: Mapping[str, Any]) -> None:
    for name, most in LONGEST.items():
        value = body.get(name)
        if value is None:
            continue
        if not isinstance(value, str) or not value.strip() or len(value.encode("utf-8", "replace")) > most:
            raise InvalidRequestError(f"{name} must be a text of 1 to {most} bytes that is not blank")


def _check_storable(place: str, value: object) -> None:
    """Raise InvalidRequestError for NUL and lone surrogates, which no database holds; `place` shows no data."""
    if isinstance(value, str):
        if "\0" in value or any("\ud800" <= sign <= "\udfff" for sign in value):
            raise InvalidRequestError(f"{place}: a text must hold no NUL and no half of a surrogate pair")
    elif isinstance(value, Mapping):
        for name, one in value.items():
            _check_storable(place, name)
            _check_storable(name if place in ("turn", "question") else place, one)
    elif isinstance(value, list | tuple):
        for one in value:
            _check_storable(place, one)


def _check_moment(name: str, value: object) -> None:
    if isinstance(value, str):
        try:
            parse_zoned(value)
        except ValueError:
            told = f"{name} must be RFC 3339 with a time zone, such as 2026-03-02T09:30:00Z"
            raise InvalidRequestError(told) from None


def _check_metadata(metadata: Mapping[str, Any]) -> None:
    if not all(isinstance(name, str) and isinstance(value, str) for name, value in metadata.items()):
        raise InvalidRequestError("metadata must be texts by name")
    if sum(len(name.encode()) + len(value.encode()) for name, value in metadata.items()) > LONGEST_METADATA:
        raise InvalidRequestError(f"metadata has at most {LONGEST_METADATA} bytes")


def _is_blank(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    return "type" not in message and isinstance(content, str) and not strip_frames(content).strip()
