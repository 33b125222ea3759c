"""Writes insights: texts derived from facts of one subject; pure functions.

A fact that was stated in more than one turn is stable; one whose value changed has evolved. Source: the consolidation
of the turn tools' maintenance (fact_stability, fact_evolution). Facts of one kind whose key is their value are a list.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from store.text.rules.canonical import fold_text
from store.text.rules.fact_rules import LIST_PHRASES

#: Characters of the latest statement that are repeated, and values that are told, the newest of them.
MOST_CHARACTERS = 140
MOST_VALUES = 8
#: The most members of a list, the newest of them, and its most characters: each new member writes the list anew.
LISTED, LIST_CHARACTERS = 16, 1_000
#: Most words of a member: what takes more to say is no name of a thing.
MEMBER_WORDS = 6


@dataclass(frozen=True, slots=True)
class Member:
    """A fact that a list may tell; `key` tells it from others of its kind and subject."""

    key: str = field(repr=False)
    value: str = field(repr=False)
    content: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Statement(Member):
    """One statement of a fact; `folded` is its value for comparison."""

    folded: str = field(repr=False)
    unit_id: UUID
    turn_id: UUID
    at: datetime


AnyMember = TypeVar("AnyMember", bound=Member)


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


def choose_members(fact_id: str, newest_first: Iterable[AnyMember]) -> Sequence[AnyMember]:
    """Return the members of the list of one kind and subject, in order of time: the newest statement of each key.

    `fact_id` is one of LIST_PHRASES. Only statements in the kind's own words that begin as the newest one can be
    members. Other words with the value may say something else: "Ann's city is Porto." is no visit.
    """
    chosen: dict[str, AnyMember] = {}
    begins, characters = "", 0
    for one in newest_first:
        said = _find_beginning(fact_id, one)
        if said is None or one.key in chosen or fold_text(said) != fold_text(begins or said):
            continue
        begins, characters = begins or said, characters + len(f"; {one.value}")
        if len(chosen) == LISTED or len(f"{begins}.") + characters > LIST_CHARACTERS:
            break
        chosen[one.key] = one
    return list(reversed(chosen.values()))


def derive_list(fact_id: str, members: Sequence[Member]) -> str | None:
    """Return the list of these members, None for fewer than two: "Ann visited: Porto; Ghent; Granada."."""
    if len(members) <= 1:
        return None
    return f"{_find_beginning(fact_id, members[-1])}: {'; '.join(one.value for one in members)}."


def _find_beginning(fact_id: str, one: Member) -> str | None:
    """Return what stands before the value of a statement in the kind's own words; None of any other statement."""
    fits = one.content.endswith(f"{LIST_PHRASES[fact_id]}{one.value}.") and len(one.value.split()) <= MEMBER_WORDS
    return one.content.removesuffix(f"{one.value}.").rstrip() if fits else None


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
