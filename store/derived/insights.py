"""Writes insights: texts derived from facts of one subject; pure functions.

A fact that was stated in more than one turn is stable; one whose value changed has evolved. Source: the consolidation
of the turn tools' maintenance (fact_stability, fact_evolution). Facts of one kind with several keys are a list.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

#: Characters of the latest statement that are repeated, and values that are told, the newest of them.
MOST_CHARACTERS = 140
MOST_VALUES = 8


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a fact; `folded` is its value for comparison."""

    unit_id: UUID
    turn_id: UUID
    key: str
    value: str = field(repr=False)
    folded: str = field(repr=False)
    content: str = field(repr=False)
    at: datetime


def derive_insight(fact_id: str, statements: Sequence[Statement]) -> str | None:
    """Return the insight of one identity's statements (in order of time); None when they add nothing to each other."""
    changes = list(_value_changes(statements))
    if len(changes) > 1:
        told = changes[-MOST_VALUES:]
        values = " -> ".join(f"{one.value} ({one.at.date().isoformat()})" for one in told)
        earlier = "... -> " if len(told) < len(changes) else ""
        return f"fact_evolution {_name_insight(fact_id, statements)}: {earlier}{values}. {_latest_values(statements)}"
    turns = {one.turn_id for one in statements}
    if len(turns) > 1:
        since = f"stated in {len(turns)} turns since {statements[0].at.date().isoformat()}"
        named, latest = _name_insight(fact_id, statements), _latest_values(statements)
        return f"fact_stability {named} = {statements[-1].value}, {since}. {latest}"
    return None


def derive_list(fact_id: str, statements: Sequence[Statement]) -> str | None:
    """Return the list of the facts of one kind and subject, one statement of each; None for fewer than two.

    It begins as the last of them: "Ann visited: Porto; Ghent; Granada."
    """
    if len(statements) <= 1:
        return None
    begins = statements[-1].content.rpartition(statements[-1].value)[0].rstrip() or fact_id
    return f"{begins}: {'; '.join(one.value for one in statements)}."


def _value_changes(statements: Sequence[Statement]) -> Iterator[Statement]:
    """Yield the first statement of each value that differs from the one before."""
    before = None
    for one in statements:
        if one.folded != before:
            yield one
        before = one.folded


def _name_insight(fact_id: str, statements: Sequence[Statement]) -> str:
    return f"{fact_id}::{statements[-1].key}"


def _latest_values(statements: Sequence[Statement]) -> str:
    content = statements[-1].content
    return content if len(content) <= MOST_CHARACTERS else f"{content[: MOST_CHARACTERS - 3]}..."
