"""Limits how many values the JSON of a request holds: each costs more to check than its few bytes to send."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from producers.errors import FieldProblem, Invalid
from store.off_loop import Steps, run_steps, run_steps_off_loop

#: Values that any request may hold.
VALUES = 50_000
#: Bytes of a larger request for each of its values.
BYTES_A_VALUE = 16
#: Bytes of JSON in which values are counted at a time.
WINDOW = 16_384
_SPACE = b" \t\r\n"


async def limit_json(raw: bytes) -> None:
    """Check JSON before it is parsed; values are counted off the event loop. Raises Invalid for too many for its size.

    A member whose name is given twice counts twice.
    """
    raw = _as_utf8(raw)
    if _may_hold_more(raw):
        await run_steps_off_loop(len(raw), _limit_counted(raw))


def limit_json_now(raw: bytes) -> None:
    """Check JSON as `limit_json` does, in the thread of the caller."""
    raw = _as_utf8(raw)
    if _may_hold_more(raw):
        run_steps(_limit_counted(raw))


def _limit_counted(raw: bytes) -> Steps[None]:
    seen, most = 1, _limit_of(len(raw))
    for more in _count_by_window(raw):
        seen += more
        if seen > most:
            raise _refuse_values(most)
        yield


def _limit_of(size: int) -> int:
    return max(VALUES, size // BYTES_A_VALUE)


def _refuse_values(most: int) -> Invalid:
    return Invalid(FieldProblem("", f"holds more than {most} JSON values: send it in parts"))


def is_deeper(value: Any, levels: int) -> bool:
    """Return whether a JSON value is nested in more levels than these; a value without others in it is one level."""
    level = [value]
    for _ in range(levels):
        if not level:
            return False
        level = [inner for one in level for inner in _list_inside(one)]
    return bool(level)


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a JSON value with its texts changed, names of fields included; of few levels, for it goes by recursion."""
    if isinstance(value, Mapping):
        return {change(name): map_texts(one, change) for name, one in value.items()}
    if isinstance(value, list):
        return [map_texts(one, change) for one in value]
    return change(value) if isinstance(value, str) else value


def _list_inside(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _may_hold_more(raw: bytes) -> bool:
    """Return whether the bytes, commas and brackets, even those in strings, are enough for too many values."""
    most = _limit_of(len(raw))
    return len(raw) > 2 * most - 1 and _count_marks(raw) >= most


def _as_utf8(raw: bytes) -> bytes:
    """Return JSON of any encoding in UTF-8, in which marks are counted; as it is where it is no text."""
    encoding = json.detect_encoding(raw)
    if encoding.startswith("utf-8"):
        return raw
    try:
        return raw.decode(encoding, "surrogatepass").encode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return raw


def _count_marks(raw: bytes) -> int:
    """Return how many values end here: each but the first of an object or a list has a comma, the first its end."""
    return raw.count(b",") + raw.count(b"]") + raw.count(b"}")


def _count_by_window(raw: bytes) -> Iterator[int]:
    """Yield how many values each part of valid JSON adds to the outermost one."""
    at, quoted, last = 0, False, b""
    while at < len(raw):
        window = raw[at : at + WINDOW]
        if (len(window) - len(window.rstrip(b"\\"))) % 2:
            # An escaped quotation mark stays with its backslash.
            window = raw[at : at + len(window) + 1]
        at += len(window)
        texts = window.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        # One mark for each string, so that a list of a single one is not taken for an empty list.
        outside = (b'"' * quoted + b'"'.join(texts[quoted::2])).translate(None, _SPACE)
        quoted ^= len(texts) % 2 == 0
        joined = last + outside
        yield _count_marks(outside) - joined.count(b"[]") - joined.count(b"{}")
        last = joined[-1:]
