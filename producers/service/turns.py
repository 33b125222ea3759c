"""Validation of a completed turn, for every interface. Pure: a JSON value in, a `NewTurn` or a typed error out.

Frames of recalled text are removed here, so that recalled memory is never stored again; a message that was only a
frame, or blank, is left out; a turn without messages left is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from uuid import UUID

import orjson
from afterturn_client.message_times import find_time
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)

from producers.errors import FieldProblem, Invalid, ProducerError, TooLarge
from producers.service.bodies import parse_body
from producers.service.fields import DefaultBank, End, Moment, Name, SessionId, SpeakerId, Text, TurnId, field_error
from producers.service.framing import strip_frames
from producers.service.wire import RequestModel
from producers.settings import ApiSettings
from producers.turns.built_messages import UnknownForm
from producers.turns.items import (
    KEPT,
    choose_role,
    clean_items,
    find_said,
    is_blank,
    is_item,
    render_item,
    strip_across,
)
from producers.turns.message_forms import recognise_message
from store.errors import NotFound
from store.log.storable import check_json, check_text
from store.memory.turns import NewMessage, NewTurn

MAX_BATCH = 500
#: Most characters of a text within an item, a first check before the limit of a message.
LONGEST_TEXT = 16_777_216
MAX_METADATA_BYTES = 16_384
#: Most bytes of metadata that one call writes: a turn's metadata are stored with each of its messages.
MAX_METADATA_BYTES_OF_CALL = 4_194_304
Metadata = Annotated[
    dict[Text, Text],
    Field(description=f"the caller's own texts by name, together at most {MAX_METADATA_BYTES} bytes of UTF-8"),
]
#: Most tags of a turn, and the metadata key under which they are stored.
MAX_TAGS = 64
TAGS = "tags"
TEXT_PARTS = frozenset({"text", "input_text", "output_text"})

#: A valid turn, or the error that refuses it.
Judged = NewTurn | ProducerError | NotFound


@dataclass(frozen=True, slots=True)
class Content:
    """A message's text without frames; `parts`: its parts that are not text."""

    text: str
    parts: Sequence[Mapping[str, Any]] | None = None


def read_content(value: Any) -> Content:
    """Read a string or a list of content parts (objects with a `type`; those of type text carry `text`)."""
    if isinstance(value, str):
        return Content(strip_frames(check_text(value)))
    if not isinstance(value, list) or not value:
        raise field_error("must be a string or a list of content parts")
    check_json(value)
    parts = strip_across([_parse_part(part) for part in value])
    text = "\n".join(told for part in parts if (told := _describe_part(part)))
    return Content(text, None if all(part["type"] in TEXT_PARTS for part in parts) else parts)


def _parse_part(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise field_error("a content part must be an object with a type")
    if value["type"] not in TEXT_PARTS:
        return value
    if not isinstance(value.get("text"), str):
        raise field_error("a text part must carry a text")
    return {**value, "text": strip_frames(value["text"])}


def _describe_part(part: Mapping[str, Any]) -> str:
    """Return a part as text: its text, or a note of an image, a file or a tool's call."""
    if part["type"] in TEXT_PARTS:
        return str(part["text"])
    if part["type"] == KEPT and isinstance(part.get("item"), dict):
        return render_item(part["item"])
    if (said := find_said(part)) is not None:
        return said
    name = part.get("name")
    return f"[{part['type']}: {name}]" if isinstance(name, str) and name else f"[{part['type']}]"


ContentField = Annotated[
    Content,
    BeforeValidator(read_content),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]}),
]


def _document_id(value: Any) -> UUID:
    try:
        return UUID(value)
    except (TypeError, ValueError, AttributeError):
        raise field_error("must be the id of a document") from None


DocumentId = Annotated[UUID, PlainValidator(_document_id), WithJsonSchema({"type": "string", "format": "uuid"})]


class MessageBody(BaseModel):
    """One message of a turn, or an item of OpenAI's APIs as it is: calls, their outputs, unknown types, kept whole.

    Messages of other frameworks are recognised (docs/turns.md); one that does not say who spoke is refused.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    role: Literal["user", "assistant", "tool", "system"] = Field(description="role of the speaker")
    name: Name | None = Field(None, description="name of the speaker")
    content: ContentField = Field(
        description="text, or content parts as of OpenAI's APIs; recalled text in a frame is left out"
    )
    timestamp: Moment | None = Field(None, description="time at which it was said; left out: `occurred_at` of the turn")

    @model_validator(mode="before")
    @classmethod
    def _recognise_form(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        try:
            known = recognise_message(value)
        except UnknownForm as error:
            raise field_error(str(error)) from None
        return _message_of_item(known) if is_item(known) else known


def _message_of_item(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message with the item as its one part; blank where the item was only a frame."""
    items = clean_items([value], "messages", LONGEST_TEXT)
    # The name of a call is the tool's.
    speaks = "call" not in str(value.get("type"))
    said = {name: value[name] for name in ("name", "timestamp") if name in value and speaks}
    if speaks and "timestamp" not in said and (at := find_time(value)) is not None:
        said["timestamp"] = at
    content: Any = [{"type": KEPT, "item": item} for item in items if not is_blank(item)] or ""
    return {**said, "role": choose_role(items[0]) if items else "system", "content": content}


class TurnBody(RequestModel):
    """A completed turn."""

    bank: DefaultBank = "default"
    session_id: SessionId
    turn_id: TurnId
    user_id: SpeakerId = None
    occurred_at: Moment | None = Field(None, description="time of the turn; left out: when it arrives")
    messages: list[MessageBody] = Field(
        min_length=1, description="what was said, in order, up to the end of the agent's answer"
    )
    metadata: Metadata = Field(default_factory=dict)
    tags: list[Name] = Field(default_factory=list, max_length=MAX_TAGS, description="tags, which recall can filter by")
    gateway: bool | None = Field(
        None,
        description="whether to deliver the turn to the gateway target, if there is one; left out: true",
    )
    doc_id: DocumentId | None = Field(None, description="id of the document of the bank that the turn was read from")
    expires_at: End = None


class BatchBody(RequestModel):
    """A batch of turns; each is validated separately."""

    turns: list[Any] = Field(
        min_length=1,
        max_length=MAX_BATCH,
        json_schema_extra={"items": {"$ref": "#/components/schemas/TurnBody"}},
        description="turns, each as `POST /api/v1/turns` takes it",
    )


def read_turn(value: Any, settings: ApiSettings) -> NewTurn:
    """Return the turn in a JSON value.

    Raises Invalid, or TooLarge for a message beyond its limit.
    """
    messages = value.get("messages") if isinstance(value, dict) else None
    if isinstance(messages, list) and len(messages) > settings.max_messages:
        raise Invalid(FieldProblem("messages", f"max_messages allows {settings.max_messages} messages a turn"))
    body = parse_body(TurnBody, value)
    limit_metadata(body.metadata)
    if body.tags and TAGS in body.metadata:
        raise Invalid(FieldProblem("tags", "are given twice: among the metadata too"))
    for n, message in enumerate(body.messages):
        limit_text(f"messages.{n}.content", measure_content(message.content), settings)
    said = [
        _build_message(message) for message in body.messages if message.content.parts or message.content.text.strip()
    ]
    if not said:
        raise Invalid(FieldProblem("messages", "nothing to remember: every message is blank or recalled text"))
    return NewTurn(
        bank=body.bank,
        session_name=body.session_id,
        turn_name=body.turn_id,
        messages=said,
        user_id=body.user_id,
        occurred_at=body.occurred_at,
        metadata=_turn_metadata(body),
        gateway=body.gateway is not False,
        gateway_asked=body.gateway,
        expires_at=body.expires_at,
        doc_id=body.doc_id,
    )


def limit_text(field: str, size: int, settings: ApiSettings) -> None:
    """Raise TooLarge for a text of more bytes than a message may have."""
    if size > settings.max_message_bytes:
        raise TooLarge(field, "max_message_bytes", settings.max_message_bytes)


def limit_metadata(metadata: Mapping[str, str]) -> None:
    """Raise TooLarge for more metadata than a turn or a document may have."""
    if sum(len(k.encode()) + len(v.encode()) for k, v in metadata.items()) > MAX_METADATA_BYTES:
        raise TooLarge("metadata", "max_metadata_bytes", MAX_METADATA_BYTES)


def limit_call(judged: Sequence[Judged]) -> list[Judged]:
    """Return a call's turns, with TooLarge in place of each whose metadata no longer fit into the call's limit."""
    limit, written = MAX_METADATA_BYTES_OF_CALL, 0
    found: list[Judged] = []
    for one in judged:
        size = _metadata_written(one) if isinstance(one, NewTurn) else 0
        fits = written + size <= limit
        written += size if fits else 0
        found.append(one if fits else TooLarge("metadata of all messages", "max_metadata_bytes_of_call", limit))
    return found


def _metadata_written(turn: NewTurn) -> int:
    return len(turn.messages) * len(orjson.dumps(dict(turn.metadata))) if turn.metadata else 0


def _turn_metadata(body: TurnBody) -> Mapping[str, str | Sequence[str]]:
    """Return the stored metadata of a turn, with its tags among them, each once."""
    kept: dict[str, str | Sequence[str]] = dict(body.metadata)
    if body.tags:
        kept[TAGS] = sorted(set(body.tags))
    return kept


def measure_content(content: Content) -> int:
    """Return the size of a message's content in bytes."""
    return len(orjson.dumps(content.parts)) if content.parts else len(content.text.encode())


def _build_message(body: MessageBody) -> NewMessage:
    return NewMessage(body.role, body.content.text, body.name, body.timestamp, body.content.parts)
