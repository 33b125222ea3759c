"""The formats of `afterturn ingest`: our JSON Lines, OpenAI chat messages, `Name: text` transcripts. Pure parsing.

Every parser yields turns, and bad lines with their numbers, in the order of the file; no content makes it raise.
"""

import json
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Any, BinaryIO, Literal

from afterturn_client.turns import Message, NewTurn
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError

from deploy.cli.bounded_lines import BOM, read_lines
from deploy.cli.chat import parse_chat_turns
from deploy.cli.chat_document import begins_with_message
from deploy.cli.parsed import BadLine, Parsed, check_turn, derive_turn_name, describe_first_error
from producers.turns.items import is_item
from store.identity import digest_name

#: The service's default limit for a request, in bytes; a longer line cannot be sent.
LONGEST_LINE = 2_097_152
LONGEST_SESSION_ID = 128
_SAMPLED_LINES = 50
_SAMPLED_CHARACTERS = 4096

_NAMED = re.compile(r'(?P<name>[^\s:{}\[\]"][^:{}\[\]"]{0,127}):\s+(?P<text>\S.*)')
_ROLES = {"assistant": "assistant", "ai": "assistant", "agent": "assistant", "bot": "assistant", "system": "system"}


class Format(StrEnum):
    """A format of an ingested file."""

    JSONL = "jsonl"
    CHAT = "chat"
    TRANSCRIPT = "transcript"
    #: Plain text or Markdown, stored as one document; never detected by content.
    DOCUMENT = "document"


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)


class _Message(_Strict):
    role: Literal["user", "assistant", "tool", "system"]
    content: str | list[dict[str, Any]] = Field(repr=False)
    name: str | None = None
    timestamp: str | int | None = None


def _kind_of(value: Any) -> str:
    return "item" if isinstance(value, dict) and is_item(value) else "message"


#: A message of this service, or an unchanged item of OpenAI's APIs.
_Said = Annotated[Annotated[_Message, Tag("message")] | Annotated[dict[str, Any], Tag("item")], Discriminator(_kind_of)]


class _Turn(_Strict):
    session_id: str
    turn_id: str
    messages: list[_Said] = Field(min_length=1, repr=False)
    bank: str | None = None
    user_id: str | None = None
    occurred_at: str | int | None = None
    metadata: dict[str, str] | None = Field(default=None, repr=False)
    gateway: bool | None = None


def detect_format(head: bytes) -> Format | None:
    """Return the format of a file that begins with these bytes; None when it is unknown."""
    text = head.removeprefix(BOM).decode(errors="replace").strip()
    if re.match(r"\[\s*[{\]]", text) or begins_with_message(text):
        return Format.CHAT
    lines = [line.strip() for line in text.splitlines()[:_SAMPLED_LINES] if line.strip()]
    if text.startswith("{") and _is_chat_object(text, lines):
        return Format.CHAT
    objects = sum(line.startswith("{") for line in lines)
    named = sum(_NAMED.fullmatch(line) is not None for line in lines)
    if not objects and not named:
        return None if lines else Format.JSONL
    return Format.JSONL if objects >= named else Format.TRANSCRIPT


def parse_file(stream: BinaryIO, form: Format, session_name: str, longest: int = LONGEST_LINE) -> Iterator[Parsed]:
    """Yield the turns and bad lines of a file; `session_name` is used for formats that name no session."""
    if form is Format.CHAT:
        return parse_chat_turns(stream, session_name)
    return _parse_jsonl(stream, longest) if form is Format.JSONL else _parse_transcript(stream, session_name, longest)


def derive_session_name(file_name: str) -> str:
    """Return a session id derived from a file's name: the name, or its beginning and a hash when it is too long."""
    name = "".join("_" if sign in "/\\" or not sign.isprintable() else sign for sign in file_name)
    raw = name.encode(errors="replace")
    if len(raw) <= LONGEST_SESSION_ID and name not in {"", ".", ".."}:
        return raw.decode()
    return digest_name(raw.decode())


def _parse_jsonl(stream: BinaryIO, longest: int) -> Iterator[Parsed]:
    for line in read_lines(stream, longest):
        if line.text is None:
            yield BadLine(line.number, line.error, line.offset)
        elif line.text.strip():
            yield _parse_json_turn(line.text, line.number, line.offset)


def _parse_json_turn(text: str, number: int, offset: int) -> Parsed:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
        if not isinstance(value, dict):
            return BadLine(number, "not a JSON object", offset)
        wire = _Turn.model_validate(value)
    except ValidationError as error:
        return BadLine(number, describe_first_error(error), offset)
    except json.JSONDecodeError as error:
        return BadLine(number, f"not JSON ({error.msg.lower()}, column {error.colno})", offset)
    except (ValueError, RecursionError):
        return BadLine(number, "not JSON that can be read (a number or a nesting out of range)", offset)
    messages = [
        Message(one.role, one.content, one.name, one.timestamp) if isinstance(one, _Message) else one
        for one in wire.messages
    ]
    rest = wire.model_dump(exclude={"messages", "session_id"}, exclude_none=True)
    return check_turn(NewTurn(wire.session_id, messages, **rest), number, offset)


def _parse_transcript(stream: BinaryIO, session_name: str, longest: int) -> Iterator[Parsed]:
    for line in read_lines(stream, longest):
        if line.text is None:
            yield BadLine(line.number, line.error, line.offset)
        elif line.text.strip():
            yield _parse_transcript_line(line.text.strip(), line.number, line.offset, session_name)


def _parse_transcript_line(line: str, number: int, offset: int, session_name: str) -> Parsed:
    found = _NAMED.fullmatch(line)
    if found is None:
        return BadLine(number, "not `Name: text`", offset)
    role = _ROLES.get(found["name"].strip().lower(), "user")
    messages = [Message(role, found["text"], found["name"].strip())]
    turn = NewTurn(session_name, messages, derive_turn_name(number, role, found["text"]))
    return check_turn(turn, number, offset)


def _is_chat_object(text: str, lines: Sequence[str]) -> bool:
    """Return whether a file that begins with `{` is one chat document and not lines of turns."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        # Several objects, or the beginning of one: a turn names its session early, a chat document never does.
        of_turns = any(name in text[:_SAMPLED_CHARACTERS] for name in ('"session_id"', '"turn_id"'))
        return not of_turns and not (len(lines) > 1 and lines[0].endswith("}") and lines[1].startswith("{"))
    return "messages" in value and not {"session_id", "turn_id"} & set(value)


def _refuse_constant(name: str) -> float:
    raise ValueError(name)
