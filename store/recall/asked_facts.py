"""Tells which facts about themselves people ask for: "What's my name?", "Where do I work?". Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from store.text.pattern_tables import fill_pieces
from store.text.rules.pattern_tables import Patterns, read_pieces, read_table
from store.text.rules.rule import any_of
from store.text.rules.vocabulary import people_nouns

#: Characters of a question that are read for this, from its beginning.
_LONGEST = 256
# Agents ask of "the user" where people ask of themselves.
_OF_USER = (
    (re.compile(r"\b(?:the )?user's\b"), "my"),
    (re.compile(r"\bdoes the user\b"), "do i"),
    (re.compile(r"\bis the user\b"), "am i"),
    (re.compile(r"\bhas the user\b"), "have i"),
    (re.compile(r"\bthe user\b"), "i"),
)


@dataclass(frozen=True, slots=True)
class AskedFacts:
    """The kinds of facts that a question asks for, the one that answers it best first.

    `key`: those of one key alone, such as the favourite colour.
    """

    fact_ids: tuple[str, ...]
    key: str | None = None


_TABLE = read_table("asked_facts")
_PIECES = read_pieces(_TABLE, {"RELATIONS": any_of(people_nouns())})
_PATTERN = Patterns("asked_facts", **_PIECES)
_KINDS: Sequence[tuple[re.Pattern[str], tuple[str, ...]]] = [
    (re.compile(rf"\b(?:{fill_pieces('|'.join(one['phrases']), _PIECES)})\b"), tuple(one["facts"]))
    for one in _TABLE["asked"]
]


def find_asked_facts(text: str) -> AskedFacts | None:
    """Return the kinds of own facts that a question asks for, None where it asks for none of them."""
    asked = text[:_LONGEST].lower().replace("\u2019", "'")
    for pattern, instead in _OF_USER:
        asked = pattern.sub(instead, asked)
    return next(_iterate_asked(asked), None)


def _iterate_asked(asked: str) -> Iterator[AskedFacts]:
    relation = _PATTERN.relation.search(asked)
    if relation:
        word = next(found for found in relation.groups() if found)
        yield AskedFacts((f"user_{word}",))
    favourite = _PATTERN.favourite.search(asked)
    if favourite:
        yield AskedFacts(("user_favourite",), favourite["key"])
    for pattern, fact_ids in _KINDS:
        if pattern.search(asked):
            yield AskedFacts(fact_ids)
