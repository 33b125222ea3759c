"""Limits how many values the JSON of a request holds: each costs more to check than its few bytes to send."""

from typing import Any

from producers.errors import FieldProblem, Invalid

#: Values that any request may hold.
VALUES = 50_000
#: Bytes of a larger request for each of its values.
BYTES_A_VALUE = 16


def limit_values(value: Any, size: int = 0) -> Any:
    """Return a request's JSON, of this many bytes. Raises Invalid where it holds too many values for its size."""
    most, seen, level = max(VALUES, size // BYTES_A_VALUE), 0, [value]
    while level:
        seen += len(level)
        if seen > most:
            raise Invalid(FieldProblem("", f"holds more than {most} JSON values: send it in parts"))
        level = [inner for one in level for inner in _list_inside(one)]
    return value


def _list_inside(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
