"""Parses conversations into turns: messages of OpenAI, Anthropic, Gemini, LangChain and others, exports of chats."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from afterturn_client.message_times import find_time
from afterturn_client.turns import Message, NewTurn
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deploy.ingest_formats.bounded_lines import BOM
from deploy.ingest_formats.chat_document import NotAChatDocument, read_conversations
from deploy.ingest_formats.conversations import Conversation
from deploy.ingest_formats.parsed import (
    BadLine,
    Parsed,
    TurnNames,
    Unrecognised,
    check_turn,
    derive_session_name,
    describe_first_error,
)
from producers.turns.built_messages import UnknownForm, check_time
from producers.turns.items import is_blank, is_item
from producers.turns.message_forms import LOOKED_FOR, identify_message, recognise_message

LONGEST_DOCUMENT = 256 * 1024 * 1024

#: What a file is refused with that holds nothing but objects with a type, such as the lines of a log.
_NOBODY = f"no message says who spoke; {LOOKED_FOR}"
#: A message of this service, or an unchanged item of OpenAI's APIs.
Said = Message | Mapping[str, Any]


class _ChatMessage(BaseModel):
    """A message that consists only of text; anything else is an item, which is stored unchanged."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", hide_input_in_errors=True)

    role: str
    content: str | list[dict[str, Any]] | None = Field(default=None, repr=False)
    name: str | None = None


@dataclass
class _Group:
    """The messages of one turn; `spoiled` by a bad message, `key` names it: an id (`has_id`), or what it says."""

    line: int
    key: str = ""
    messages: list[Said] = field(default_factory=list)
    spoiled: bool = False
    has_id: bool = False


@dataclass(frozen=True, slots=True)
class SessionChoice:
    """The session of a conversation: its own id, or the file's name; `given` by the caller goes before both."""

    file: str
    given: str | None = None

    def name(self, conversation: Conversation, *, alone: bool) -> str:
        """Return the session of a conversation that is `alone` in its file, or one of several."""
        if self.given is None:
            return derive_session_name(conversation.name or self.file)
        return self.given if alone else derive_session_name(f"{self.given}-{conversation.name or ''}")


def parse_chat_turns(stream: BinaryIO, sessions: SessionChoice) -> Iterator[Parsed]:
    """Yield the turns of one document: a user message and what follows up to the next one; of people, each message.

    Messages before the first user message are a turn of their own. A turn is named by the id of its first message, or
    by what that says, so that a longer export gives the old turns their old names; where several turns begin with the
    same words, the answer tells them apart, wherever a new one was added. A turn with a bad message is not yielded,
    because an incomplete turn could never be completed later. A document none of whose messages is in a known form is
    Unrecognised.
    """
    raw = stream.read(LONGEST_DOCUMENT + 1)
    if len(raw) > LONGEST_DOCUMENT:
        yield BadLine(1, f"a chat document of more than {LONGEST_DOCUMENT} bytes")
        return
    try:
        conversations = read_conversations(raw.removeprefix(BOM))
    except NotAChatDocument as error:
        yield Unrecognised(error.line, str(error), len(raw))
        return
    if not any(one.messages for one in conversations) and _holds_objects(raw):
        yield Unrecognised(1, _NOBODY, len(raw))
        return
    if problem := _find_unrecognised(conversations):
        yield Unrecognised(1, f"none of its messages is recognised: {problem}", len(raw))
        return
    names: dict[str, TurnNames] = {}
    for one in conversations:
        session = sessions.name(one, alone=len(conversations) == 1)
        yield from _parse_conversation(one, session, names.setdefault(session, TurnNames()), len(raw))


def _holds_objects(document: bytes) -> bool:
    """Return whether a JSON document holds an object besides the one that it may be itself."""
    return document.count(b"{") > (1 if document.lstrip().startswith(b"{") else 0)


def _find_unrecognised(conversations: Sequence[Conversation]) -> str:
    """Return why no message has a speaker; empty where one has, or there are no messages."""
    problem = ""
    for one in conversations:
        for _, value in one.messages:
            said = _parse_message(value)
            if not isinstance(said, str) and (said is None or _field_of(said, "role")):
                return ""
            problem = problem or (said if isinstance(said, str) else _NOBODY)
    return problem


def _parse_conversation(one: Conversation, session: str, names: TurnNames, offset: int) -> Iterator[Parsed]:
    groups: list[_Group] = []
    for line, value in one.messages:
        message = _parse_message(value)
        if message is None:
            continue
        role = value.get("role") if isinstance(message, str) and isinstance(value, dict) else _field_of(message, "role")
        if not groups or one.of_people or role == "user":
            groups.append(_Group(line))
        group = groups[-1]
        if isinstance(message, str):
            group.spoiled = True
            yield BadLine(line, message, offset)
        else:
            if not group.key:
                group.has_id, group.key = identify_message(value) is not None, _derive_key(value, message)
            group.messages.append(message)
    copies = Counter(group.key for group in groups if not (group.has_id or one.of_people))
    for group in groups:
        if group.messages and not group.spoiled:
            name, otherwise = _take_names(group, names, is_copy=copies[group.key] > 1)
            turn = NewTurn(session, tuple(group.messages), name)
            yield check_turn(turn, group.line, offset, may_grow=not one.of_people, otherwise=otherwise)


def _take_names(group: _Group, names: TurnNames, *, is_copy: bool) -> tuple[str, str | None]:
    """Return the name of a turn, and the one that it has where the first is another turn's."""
    return names.take_copy(group.key, _answer_of(group)) if is_copy else (names.take(group.key), None)


def _answer_of(group: _Group) -> str:
    """Return the name of a turn's answer, by the first message behind its question."""
    return "" if len(group.messages) == 1 else _describe_said(group.messages[1])


def _parse_message(value: Any) -> Said | str | None:
    """Return the message, None for a blank one, or a text that names its fault."""
    if not isinstance(value, dict):
        return "not a message"
    if not isinstance(value.get("type", ""), str) and "author" not in value:
        return "type: must be a text"
    try:
        check_time(value)
        return _build_said(recognise_message(value))
    except UnknownForm as error:
        return str(error)
    except ValidationError as error:
        return describe_first_error(error)


def _build_said(known: dict[str, Any]) -> Said | None:
    if is_item(known):
        return None if is_blank(known) else known
    wire = _ChatMessage.model_validate(known)
    return Message(wire.role, wire.content, wire.name, find_time(known)) if wire.content else None


def _derive_key(value: Mapping[str, Any], said: Said) -> str:
    """Return the name of the turn that begins with this message: its id, or its text, speaker and time."""
    if (given := identify_message(value)) is not None:
        return given
    return _describe_said(said)


def _describe_said(said: Said) -> str:
    """Return a digest of a message's text, speaker and time."""
    content = _field_of(said, "content")
    text = content if isinstance(content, str) else json.dumps(content, sort_keys=True)
    return TurnNames.digest(*(str(_field_of(said, name) or "") for name in ("role", "name", "timestamp")), text)


def _field_of(said: Said | str, name: str) -> Any:
    return said.get(name) if isinstance(said, Mapping) else getattr(said, name, None)
