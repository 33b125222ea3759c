"""Constants that stand in the text of a statement.

A parameter in their place would keep the planner from an index whose predicate or expression holds the constant.
"""

from typing import Any

from sqlalchemy import ColumnElement, Integer, Text, literal_column


def inline(value: str | int) -> ColumnElement[Any]:
    """Return a constant of ours; never for what a caller sent."""
    if isinstance(value, int):
        return literal_column(str(value), Integer)
    quoted = value.replace("'", "''")
    return literal_column(f"'{quoted}'", Text)


ZERO, ONE = inline(0), inline(1)
