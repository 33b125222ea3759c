"""Reads the messages or items of an OpenAI document, each with the line on which it begins."""

import json
import re
from collections.abc import Iterator
from typing import Any

#: Fields of a whole document or of one of our turns, which no message has.
_OF_OTHERS = frozenset({"messages", "session_id", "turn_id"})
_SPACE = re.compile(r"[ \t\r\n]*")


class NotAChatDocument(Exception):
    """The document is neither a JSON array nor an object with a list of messages; `line` is where that shows."""

    def __init__(self, problem: str, line: int = 1) -> None:
        super().__init__(problem)
        self.line = line


def read_elements(raw: bytes) -> Iterator[tuple[int, Any]]:
    """Yield (line, value) of each element of the array, of the object's `messages`, or of JSON Lines of messages.

    The value of a line that is not JSON is None. Raises NotAChatDocument.
    """
    text = _decode_text(raw)
    if begins_with_message(text):
        yield from _read_lines(text)
        return
    value = _parse_json(text)
    at = _skip_space(text, 0)
    if isinstance(value, dict):
        if not isinstance(value.get("messages"), list):
            raise NotAChatDocument("the object holds no list `messages`")
        at = _find_value(text, at, "messages")
    elif not isinstance(value, list):
        raise NotAChatDocument("neither a JSON array nor an object with `messages`")
    line = 1 + text.count("\n", 0, at)
    for start, element in _walk_array(text, at):
        line += text.count("\n", at, start)
        at = start
        yield line, element


def begins_with_message(text: str) -> bool:
    """Return whether the first line is a single message or item, and not a turn."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    value = _parse_line(first)
    return isinstance(value, dict) and not {"role", "type"}.isdisjoint(value) and not _OF_OTHERS & set(value)


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
