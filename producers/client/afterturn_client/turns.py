"""Messages and turns, and their wire form. No I/O."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypedDict

from afterturn_client.arguments import check_metadata, check_name, check_objects, check_text, check_texts
from afterturn_client.errors import InvalidRequestError
from afterturn_client.moments import format_utc

#: RFC 3339 text, an aware datetime, or epoch milliseconds.
Moment = datetime | str | int


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a turn. `role` is user, assistant, tool or system; `content` text or content parts.

    Raises InvalidRequestError for a value of another type.
    """

    role: str
    content: str | Sequence[Mapping[str, Any]] = field(repr=False)
    name: str | None = None
    timestamp: Moment | None = None

    def __post_init__(self) -> None:
        check_name("role", self.role)
        if not isinstance(self.content, str):
            check_objects("content", self.content, "a content part (a mapping with a type)", "a text (str)")


@dataclass(frozen=True, slots=True)
class NewTurn:
    """A completed turn. A mapping among its messages is sent unchanged.

    `turn_id` names the turn within its session and makes writing it idempotent: the same turn sent again
    is the same turn. It is made here when it is not given, so a retry never writes twice. `doc_id` names the
    document (of the same bank) the turn was read from; recall can filter by `tags`. From `expires_at` on no answer
    holds it.
    """

    session_id: str
    messages: Sequence[Message | Mapping[str, Any]] = field(repr=False)
    turn_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    bank: str | None = None
    user_id: str | None = None
    occurred_at: Moment | None = None
    metadata: Mapping[str, str] | None = field(default=None, repr=False)
    gateway: bool | None = None
    doc_id: str | uuid.UUID | None = None
    tags: Sequence[str] | None = field(default=None, repr=False)
    expires_at: Moment | None = None


#: The messages of a turn; a mapping is sent unchanged.
Messages = Sequence[Message | Mapping[str, Any]]


class TurnOptions(TypedDict, total=False):
    """Options of a turn, besides its session and messages; see NewTurn."""

    turn_id: str
    bank: str | None
    user_id: str | None
    occurred_at: Moment | None
    metadata: Mapping[str, str] | None
    gateway: bool | None
    doc_id: str | uuid.UUID | None
    tags: Sequence[str] | None
    expires_at: Moment | None


def turn_body(turn: NewTurn, bank: str) -> dict[str, Any]:
    """Return the JSON object of POST /api/v1/turns; `bank` is for a turn that names none.

    Raises InvalidRequestError.
    """
    _check_turn(turn)
    return {
        "bank": bank if turn.bank is None else turn.bank,
        "session_id": turn.session_id,
        "turn_id": turn.turn_id,
        "messages": [_message_json(message) for message in turn.messages],
    } | _given_fields(
        user_id=turn.user_id,
        occurred_at=format_moment(turn.occurred_at),
        metadata=None if turn.metadata is None else dict(turn.metadata),
        gateway=turn.gateway,
        doc_id=turn.doc_id and str(turn.doc_id),
        tags=None if turn.tags is None else list(turn.tags),
        expires_at=format_moment(turn.expires_at),
    )


def format_moment(value: Moment | None) -> str | int | None:
    """Return a time in the form of the API, in UTC. Raises InvalidRequestError for a time without a zone."""
    if value is None or (isinstance(value, str | int) and not isinstance(value, bool)):
        return value
    if not isinstance(value, datetime):
        raise InvalidRequestError(
            "a time must be a datetime with its zone, RFC 3339 text or an int of epoch milliseconds, not "
            f"{type(value).__name__}"
        )
    if value.tzinfo is None:
        raise InvalidRequestError("a time needs a time zone (say datetime.now(UTC))")
    return format_utc(value)


def texts_of(turn: NewTurn) -> list[str]:
    """Return every text of a turn that must never appear in an error."""
    found = [*(turn.metadata or {}).values(), *(turn.tags or ())]
    for message in turn.messages:
        found += _text_list(message.content if isinstance(message, Message) else dict(message))
    return found


def _check_turn(turn: NewTurn) -> None:
    """Raise InvalidRequestError for an argument of another type than the turn's."""
    if not isinstance(turn, NewTurn):
        raise InvalidRequestError(f"turns must be a list, each a NewTurn; not {type(turn).__name__}")
    check_name("session_id", turn.session_id)
    check_name("turn_id", turn.turn_id)
    messages = turn.messages
    if isinstance(messages, Sequence) and not isinstance(messages, str | bytes):
        messages = [{} if isinstance(one, Message) else one for one in messages]
    check_objects("messages", messages, 'a message, such as Message("user", "hello")')
    if turn.bank is not None:
        check_name("bank", turn.bank)
    if turn.user_id is not None:
        check_text("user_id", turn.user_id)
    if turn.metadata is not None:
        check_metadata(turn.metadata)
    if turn.tags is not None:
        check_texts("tags", turn.tags)


def _message_json(message: Message | Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(message, Message):
        return dict(message)
    content = message.content if isinstance(message.content, str) else [dict(part) for part in message.content]
    body: dict[str, Any] = {"role": message.role, "content": content}
    return body | _given_fields(name=message.name, timestamp=format_moment(message.timestamp))


def _given_fields(**fields: object) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _text_list(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for one in value.values() for text in _text_list(one)]
    if isinstance(value, Sequence):
        return [text for one in value for text in _text_list(one)]
    return []
