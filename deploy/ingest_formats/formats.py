"""The formats of `afterturn ingest`: our JSON Lines, messages and exports of chats, transcripts. Pure parsing.

Every parser yields turns, and bad lines with their numbers, in the order of the file; no content makes it raise.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, BinaryIO, Literal

from afterturn_client.turns import Message, NewTurn
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError

from deploy.ingest_formats.agent_files import parse_agent_file
from deploy.ingest_formats.aider import begins_as_aider, parse_aider
from deploy.ingest_formats.bounded_lines import BOM, Line, read_lines
from deploy.ingest_formats.captions import begins_as_captions, parse_captions
from deploy.ingest_formats.chat import SessionChoice, parse_chat_turns
from deploy.ingest_formats.chat_document import begins_with_message, find_header, may_hold_conversations
from deploy.ingest_formats.exported_markdown import begins_as_cursor, begins_as_specstory, parse_cursor, parse_specstory
from deploy.ingest_formats.meeting_texts import (
    begins_as_meet,
    begins_as_otter,
    begins_as_zoom,
    parse_meet,
    parse_otter,
    parse_zoom,
)
from deploy.ingest_formats.parsed import (
    BadLine,
    Parsed,
    TurnNames,
    check_turn,
    derive_session_name,
    describe_first_error,
)
from deploy.ingest_formats.refused_forms import is_mail
from deploy.ingest_formats.speakers import NAMED, is_transcript, name_speakers, select_speakers, tell_role
from deploy.ingest_formats.text_source import TextSource
from deploy.ingest_formats.whatsapp import DateOrder, begins_as_whatsapp, parse_whatsapp
from deploy.ingest_formats.zoom_chat import begins_as_zoom_chat, parse_zoom_chat
from producers.turns.items import is_item

#: The service's default limit for a request, in bytes; a longer line cannot be sent.
LONGEST_LINE = 2_097_152
_SAMPLED_LINES = 50
_ARRAY = re.compile(r"\[\s*[{\[\]]")
_LINE_END = re.compile(r"\r\n?|[\n\f\v]")
_SAMPLED_CHARACTERS = 4096
#: Fields by which a line is a turn of `POST /api/v1/turns`.
_OF_TURNS = frozenset({"session_id", "turn_id"})


class Format(StrEnum):
    """A format of an ingested file."""

    JSONL = "jsonl"
    CHAT = "chat"
    TRANSCRIPT = "transcript"
    WHATSAPP = "whatsapp"
    #: Recorded meetings in WebVTT or SRT, with speakers.
    CAPTIONS = "captions"
    ZOOM = "zoom"
    ZOOM_CHAT = "zoom-chat"
    OTTER = "otter"
    MEET = "meet"
    AIDER = "aider"
    CURSOR = "cursor"
    SPECSTORY = "specstory"
    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
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


#: What `detect_format` looks for; an error names it.
LOOKED_FOR = (
    "looked for: JSON Lines of turns (session_id, turn_id, messages); messages of OpenAI, Anthropic, Gemini, "
    "LangChain, LangGraph or the Vercel AI SDK; exports of ChatGPT, Claude, Open WebUI, LibreChat, "
    "Telegram, Discord, Slack, Teams, Messenger, Google Chat, Matrix, WhatsApp and Signal; session files of Claude "
    "Code, Codex, Qwen Code, Gemini CLI, Copilot CLI, Goose and Cline; the history of Aider, Markdown of Cursor "
    "and SpecStory; meetings of Zoom, Teams, Google Meet and Otter (WebVTT, SRT, text); and transcripts, `Name: text` "
    "a line"
)
#: Fields of the lines of Claude Code's session files.
_IN_CLAUDE_CODE = frozenset({"parentUuid", "sessionId", "message"})
#: Types of the lines of Codex's session files.
_OF_CODEX = frozenset({"session_meta", "event_msg", "response_item", "turn_context"})


def detect_format(head: bytes) -> Format | None:
    """Return the format of a file that begins with these bytes; None when it is unknown."""
    text = head.removeprefix(BOM).decode(errors="replace").strip()
    lines = [line for line in _LINE_END.split(text)[:_SAMPLED_LINES] if line.strip()]
    if not lines:
        return Format.JSONL
    objects = [value for line in lines if isinstance(value := _try_json(line), dict)]
    if agent := next(filter(None, map(_find_coding_agent, objects)), None) or _find_in_array(text):
        return agent
    if any(map(_is_turn, objects)) or _is_cut_turn(lines[0]):
        return Format.JSONL
    if text.startswith("{") or _ARRAY.match(text):
        return Format.CHAT if _is_chat(text) else None
    return _detect_text(text, lines)


def _is_chat(text: str) -> bool:
    if _ARRAY.match(text) or begins_with_message(text):
        return True
    return find_header(text) is not None or may_hold_conversations(text)


def _detect_text(text: str, lines: Sequence[str]) -> Format | None:
    return next((form for form, one in _TEXTS.items() if one.begins(text, lines)), None)


def _is_turn(value: Mapping[str, Any]) -> bool:
    """Return whether a line is one of our turns, of which a field may be missing or misspelt."""
    return len({*_OF_TURNS, "messages"} & set(value)) > 1


def _is_cut_turn(line: str) -> bool:
    """Return whether a line is the beginning of a turn that is longer than what was read, or broken."""
    begun = line[:_SAMPLED_CHARACTERS]
    return begun.startswith("{") and _try_json(line) is None and any(f'"{name}"' in begun for name in _OF_TURNS)


def _find_coding_agent(value: Mapping[str, Any]) -> Format | None:
    """Return whose session file a line is of; None where it is of none."""
    if "type" in value and ("parentUuid" in value or {"uuid", "message"} <= set(value) or "leafUuid" in value):
        return Format.CLAUDE_CODE
    return Format.CODEX if value.get("type") in _OF_CODEX and "payload" in value else None


def _find_in_array(text: str) -> Format | None:
    """Return whose session file was made this one array; None where it is none."""
    named = re.findall(r'"(\w+)":', text[:_SAMPLED_CHARACTERS]) if text.startswith("[") else ()
    return Format.CLAUDE_CODE if _IN_CLAUDE_CODE.issubset(named) else None


def _try_json(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def parse_file(
    stream: BinaryIO,
    form: Format,
    sessions: SessionChoice,
    longest: int = LONGEST_LINE,
    *,
    dates: DateOrder | None = None,
    began: datetime | None = None,
) -> Iterator[Parsed]:
    """Yield the turns and bad lines of a file; `sessions` names the sessions of formats that name none.

    `dates` says how WhatsApp's dates are written, and `began` when a recording began, where the file does not tell.
    """
    if form is Format.CHAT:
        return parse_chat_turns(stream, sessions)
    if form is Format.JSONL:
        return _parse_jsonl(stream, longest)
    if form in (Format.CLAUDE_CODE, Format.CODEX):
        return parse_agent_file(stream, form.value, sessions)
    session = sessions.given or derive_session_name(sessions.file)
    is_given = sessions.given is not None
    return _TEXTS[form].parse(TextSource(stream, sessions.file, session, longest, is_given, dates, began))


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


def _parse_transcript(source: TextSource) -> Iterator[Parsed]:
    names, lines = TurnNames(), [*read_lines(source.stream, source.longest)]
    found = [NAMED.fullmatch((line.text or "").strip()) for line in lines]
    speakers = name_speakers(select_speakers(one["name"].strip() for one in found if one))
    for line, said in zip(lines, found, strict=True):
        if line.text is None:
            yield BadLine(line.number, line.error, line.offset)
        elif said is None and line.text.strip():
            yield BadLine(line.number, "not `Name: text`", line.offset)
        elif said is not None:
            yield _parse_spoken(line, said, speakers, source.session, names)


def _parse_spoken(
    line: Line, said: re.Match[str], speakers: Mapping[str, str], session_name: str, names: TurnNames
) -> Parsed:
    label, text = said["name"].strip(), said["text"]
    if label not in speakers:
        return BadLine(line.number, "a remark, a field or a line of a log: its label is no speaker", line.offset)
    role = tell_role(label)
    turn = NewTurn(session_name, [Message(role, text, speakers[label])], names.take(names.digest(role, label, text)))
    return check_turn(turn, line.number, line.offset)


def _refuse_constant(name: str) -> float:
    raise ValueError(name)


def _begins_as_whatsapp(_: str, lines: Sequence[str]) -> bool:
    return begins_as_whatsapp(lines)


def _parse_whatsapp(source: TextSource) -> Iterator[Parsed]:
    return parse_whatsapp(source.stream, source.session, source.longest, source.dates)


def _begins_as_transcript(text: str, lines: Sequence[str]) -> bool:
    return not is_mail(text) and is_transcript(lines)


@dataclass(frozen=True, slots=True)
class _TextFormat:
    """A format of text: whether a file begins so (its head, and the first lines with text in them), and its parser."""

    begins: Callable[[str, Sequence[str]], bool]
    parse: Callable[[TextSource], Iterator[Parsed]]


#: The formats of text, in the order in which they are looked for.
_TEXTS: Mapping[Format, _TextFormat] = {
    Format.WHATSAPP: _TextFormat(_begins_as_whatsapp, _parse_whatsapp),
    Format.CAPTIONS: _TextFormat(begins_as_captions, parse_captions),
    Format.AIDER: _TextFormat(begins_as_aider, parse_aider),
    Format.CURSOR: _TextFormat(begins_as_cursor, parse_cursor),
    Format.SPECSTORY: _TextFormat(begins_as_specstory, parse_specstory),
    Format.MEET: _TextFormat(begins_as_meet, parse_meet),
    Format.ZOOM: _TextFormat(begins_as_zoom, parse_zoom),
    Format.ZOOM_CHAT: _TextFormat(begins_as_zoom_chat, parse_zoom_chat),
    Format.OTTER: _TextFormat(begins_as_otter, parse_otter),
    Format.TRANSCRIPT: _TextFormat(_begins_as_transcript, _parse_transcript),
}
