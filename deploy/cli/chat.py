"""Parses OpenAI chat messages and Responses items into turns: an array, an object with `messages`, or JSON Lines."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Literal

from afterturn_client.turns import Message, NewTurn
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deploy.cli.bounded_lines import BOM
from deploy.cli.chat_document import NotAChatDocument, read_elements
from deploy.cli.parsed import BadLine, Parsed, check_turn, derive_turn_name, describe_first_error
from producers.turns.items import is_blank, is_item

LONGEST_DOCUMENT = 256 * 1024 * 1024


#: A message of this service, or an unchanged item of OpenAI's APIs.
Said = Message | Mapping[str, Any]
ROLES = ("user", "assistant", "tool", "system", "developer", "function")


class _ChatMessage(BaseModel):
    """A message that consists only of text; anything else is an item, which is stored unchanged."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", hide_input_in_errors=True)

    role: Literal["user", "assistant", "tool", "system"]
    content: str | list[dict[str, Any]] | None = Field(default=None, repr=False)
    name: str | None = None


@dataclass
class _Group:
    """The messages of one turn, up to the next user message; `spoiled` by a bad message."""

    line: int
    messages: list[Said] = field(default_factory=list)
    asked: bool = False
    spoiled: bool = False


def parse_chat_turns(stream: BinaryIO, session_name: str) -> Iterator[Parsed]:
    """Yield the turns of one document: a user message and what follows up to the next one.

    Messages before the first user message belong to the first turn. A turn with a bad message is not
    yielded, because an incomplete turn could never be completed later; its number is still used, so that
    later turns keep their names when the message is corrected.
    """
    raw = stream.read(LONGEST_DOCUMENT + 1)
    if len(raw) > LONGEST_DOCUMENT:
        yield BadLine(1, f"a chat document of more than {LONGEST_DOCUMENT} bytes")
        return
    try:
        found = list(read_elements(raw.removeprefix(BOM)))
    except NotAChatDocument as error:
        yield BadLine(error.line, str(error), len(raw))
        return
    yield from _group_turns(found, session_name, len(raw))


def _group_turns(found: list[tuple[int, Any]], session_name: str, offset: int) -> Iterator[Parsed]:
    groups: list[_Group] = []
    for line, value in found:
        message = _parse_message(value)
        role = value.get("role") if isinstance(value, dict) else None
        if not groups or (role == "user" and groups[-1].asked):
            groups.append(_Group(line))
        group = groups[-1]
        group.asked = group.asked or role == "user"
        if isinstance(message, str):
            group.spoiled = True
            yield BadLine(line, message, offset)
        elif message is not None:
            group.messages.append(message)
    for ordinal, group in enumerate(groups, 1):
        if group.messages and not group.spoiled:
            yield _close_group(group, ordinal, session_name, offset)


def _parse_message(value: Any) -> Said | str | None:
    """Return the message, None for a blank one, or a text that says what is wrong with it."""
    if not isinstance(value, dict):
        return "not a message"
    if is_item(value):
        return _parse_item(value)
    try:
        wire = _ChatMessage.model_validate(value)
    except ValidationError as error:
        return describe_first_error(error)
    if not wire.content:
        return None
    return Message(wire.role, wire.content, wire.name)


def _parse_item(value: Mapping[str, Any]) -> Said | str | None:
    if not isinstance(value.get("type", ""), str):
        return "type: must be a text"
    if value.get("role", "user") not in ROLES or ("role" not in value and "type" not in value):
        return f"role: must be one of {', '.join(ROLES)}"
    return None if is_blank(dict(value)) else value


def _close_group(group: _Group, ordinal: int, session_name: str, offset: int) -> Parsed:
    said = [(_field_of(one, "role"), _field_of(one, "content")) for one in group.messages]
    role, content = next((one for one in said if one[0] == "user"), said[0])
    text = content if isinstance(content, str) else json.dumps(content, sort_keys=True)
    turn = NewTurn(session_name, tuple(group.messages), derive_turn_name(ordinal, str(role or ""), text))
    return check_turn(turn, group.line, offset)


def _field_of(said: Said, name: str) -> Any:
    return getattr(said, name) if isinstance(said, Message) else said.get(name)
