"""OpenAI chat messages become turns: an array, or an object with a list of `messages`. Pure parsing."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Literal

from afterturn_client.turns import Message, NewTurn
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deploy.cli.bounded_lines import BOM
from deploy.cli.chat_document import NotAChatDocument, read_elements
from deploy.cli.parsed import BadLine, Parsed, check_turn, derive_turn_name, describe_first_error

LONGEST_DOCUMENT = 256 * 1024 * 1024


class _ChatMessage(BaseModel):
    """OpenAI's message; what it holds beside these three (tool calls, refusals) is not remembered."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", hide_input_in_errors=True)

    role: Literal["user", "assistant", "tool", "system", "developer", "function"]
    content: str | list[dict[str, Any]] | None = Field(default=None, repr=False)
    name: str | None = None


@dataclass
class _Group:
    """A turn in the making: it ends where the next user message begins. A bad message spoils it."""

    line: int
    messages: list[Message] = field(default_factory=list)
    asked: bool = False
    spoiled: bool = False


def parse_chat_turns(stream: BinaryIO, session_id: str) -> Iterator[Parsed]:
    """Yield the turns of one document: a user message and what follows up to the next one.

    What stands before the first user message belongs to the first turn. A turn with a bad message is not
    yielded, since half a turn could never be completed later; its place is counted, so the names of the
    turns after it stay what they are when the message is mended.
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
    yield from _group_turns(found, session_id, len(raw))


def _group_turns(found: list[tuple[int, Any]], session_id: str, offset: int) -> Iterator[Parsed]:
    groups: list[_Group] = []
    for line, value in found:
        message = _parse_message(value)
        role = value.get("role") if isinstance(value, dict) else None
        if not groups or (role == "user" and groups[-1].asked):
            groups.append(_Group(line))
        group = groups[-1]
        group.asked = group.asked or role == "user"
        if isinstance(message, Message):
            group.messages.append(message)
        elif message is not None:
            group.spoiled = True
            yield BadLine(line, message, offset)
    for ordinal, group in enumerate(groups, 1):
        if group.messages and not group.spoiled:
            yield _close_group(group, ordinal, session_id, offset)


def _parse_message(value: Any) -> Message | str | None:
    """Return the message, None for one that says nothing, or what is wrong with it."""
    if not isinstance(value, dict):
        return "not a message"
    try:
        wire = _ChatMessage.model_validate(value)
    except ValidationError as error:
        return describe_first_error(error)
    if not wire.content:
        return None
    role = {"developer": "system", "function": "tool"}.get(wire.role, wire.role)
    return Message(role, wire.content, wire.name)


def _close_group(group: _Group, ordinal: int, session_id: str, offset: int) -> Parsed:
    named = next((one for one in group.messages if one.role == "user"), group.messages[0])
    text = named.content if isinstance(named.content, str) else json.dumps(named.content, sort_keys=True)
    turn = NewTurn(session_id, tuple(group.messages), derive_turn_name(ordinal, named.role, text))
    return check_turn(turn, group.line, offset)
