"""Reads a JSON document of conversations, or JSON Lines of messages, each message with the line on which it begins."""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from deploy.ingest_formats.conversations import (
    MESSAGE_FIELDS,
    Conversation,
    build_conversation,
    find_conversations,
    join_states,
    name_conversation,
    replay_records,
)

#: Fields of a whole document or of one of our turns, which no message has.
_OF_OTHERS = frozenset({"messages", "session_id", "turn_id"})
#: Fields of a first line that describes the session whose messages follow: of Gemini CLI, of Goose.
_OF_HEADERS = frozenset({"projectHash", "working_dir"})
_SAMPLED_LINES = 50
_SPACE = re.compile(r"[ \t\r\n]*")


class NotAChatDocument(Exception):
    """The document cannot be read, or holds no conversation in a known form; `line` is where that shows."""

    def __init__(self, problem: str, line: int = 1) -> None:
        super().__init__(problem)
        self.line = line


def read_conversations(raw: bytes) -> list[Conversation]:
    """Return the conversations of a document, or of lines; a line that is not JSON is a message None.

    Of several states of one conversation each message is taken once. Raises NotAChatDocument.
    """
    return join_states(_read_text(_decode_text(raw)))


def _read_text(text: str) -> list[Conversation]:
    if begins_with_message(text):
        return [build_conversation(list(_read_lines(text)))]
    if (header := find_header(text)) is not None:
        _, *records = _read_lines(text)
        return [build_conversation(replay_records(records), name_conversation(header))]
    if holds_conversation_lines(text):
        return [one for line, value in _read_lines(text) for one in _find_or_fail(value, line)]
    value = _parse_json(text)
    at = _skip_space(text, 0)
    if isinstance(value, list):
        return _read_array(text, at)
    if isinstance(value, dict) and isinstance(value.get("messages"), list) and (found := find_conversations(value)):
        # A message's own line is known where the object itself holds the list.
        lines = [line for line, _ in _read_elements(text, _find_value(text, at, "messages"))]
        whole = len(lines) == len(found[0].messages)
        messages = [(line, one) for line, (_, one) in zip(lines, found[0].messages, strict=True)] if whole else None
        return [Conversation(messages or found[0].messages, found[0].name, found[0].of_people)]
    return _find_or_fail(value, 1)


def begins_with_message(text: str) -> bool:
    """Return whether the first line is a single message or item, and not a turn."""
    return _is_message(_parse_line(_first_line(text)))


def find_header(text: str) -> Mapping[str, Any] | None:
    """Return the first line where it describes a session, and messages stand on the lines behind it; else None."""
    values = map(_parse_line, islice((line for line in text.splitlines() if line.strip()), _SAMPLED_LINES))
    header = next(values, None)
    if not isinstance(header, dict) or _OF_HEADERS.isdisjoint(header):
        return None
    return header if any(map(_is_message, values)) else None


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and not {"role", "type"}.isdisjoint(value) and not _OF_OTHERS & set(value)


def holds_conversation_lines(text: str) -> bool:
    """Return whether each line is an object that holds a conversation, as files for fine-tuning are."""
    return bool(find_conversations(_parse_line(_first_line(text)))) and len(text.strip().split("\n", 1)) > 1


def may_hold_conversations(text: str) -> bool:
    """Return whether a document, or the beginning of a longer one, is an object that holds conversations."""
    try:
        return bool(find_conversations(json.loads(text)))
    except (ValueError, RecursionError):
        return holds_conversation_lines(text) or any(f'"{name}"' in text for name in MESSAGE_FIELDS)


def _read_array(text: str, at: int) -> list[Conversation]:
    """Return the conversations of an array: of messages, or of conversations."""
    elements = list(_read_elements(text, at))
    first = elements[0][1] if elements else None
    if find_conversations(first) and not {"role", "type"} & set(first or ()):
        return [one for line, value in elements for one in _find_or_fail(value, line)]
    return [build_conversation(elements)]


def _find_or_fail(value: Any, line: int) -> list[Conversation]:
    if found := find_conversations(value, line):
        return found
    raise NotAChatDocument("neither an array of messages nor an object that holds a conversation", line)


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "")


def _read_lines(text: str) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, _parse_line(line)


def _parse_line(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _decode_text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = 1 + raw.count(b"\n", 0, error.start)
    raise NotAChatDocument("not UTF-8", line)


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        problem, line = f"not JSON ({error.msg.lower()}, column {error.colno})", error.lineno
    except (ValueError, RecursionError):
        problem, line = "not JSON that can be read (a number or a nesting out of range)", 1
    raise NotAChatDocument(problem, line)


def _read_elements(text: str, at: int) -> Iterator[tuple[int, Any]]:
    """Yield line and value of each element of a valid array; `at` is the offset of its opening bracket."""
    line = 1 + text.count("\n", 0, at)
    for start, element in _walk_array(text, at):
        line += text.count("\n", at, start)
        at = start
        yield line, element


def _walk_array(text: str, at: int) -> Iterator[tuple[int, Any]]:
    """Yield offset and value of each element of a valid array; `at` is the offset of its opening bracket."""
    decoder = json.JSONDecoder()
    at = _skip_space(text, at + 1)
    while text[at] != "]":
        value, end = decoder.raw_decode(text, at)
        yield at, value
        at = _skip_space(text, end)
        if text[at] == ",":
            at = _skip_space(text, at + 1)


def _find_value(text: str, at: int, wanted: str) -> int:
    """Return the offset of the last value named `wanted` in a valid object; `at` is the offset of its brace."""
    decoder = json.JSONDecoder()
    found = at
    at = _skip_space(text, at + 1)
    while text[at] != "}":
        name, end = decoder.raw_decode(text, at)
        at = _skip_space(text, _skip_space(text, end) + 1)
        found = at if name == wanted else found
        _, end = decoder.raw_decode(text, at)
        at = _skip_space(text, end)
        if text[at] == ",":
            at = _skip_space(text, at + 1)
    return found


def _skip_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at
