"""Reads the facts that hold, ranked for a turn: by whose they are, then by the score of the turn tools' contract.

The speaker's own facts come first, then those of people whom the input names, then the bank's others. Facts of
another user without a name are left out where the speaker is known: they would have no owner.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived.facts import Identity, weigh_fact
from store.derived.own_names import OWN_NAME
from store.derived.said_facts import SaidFact
from store.driver_rows import DriverRow, fetch_rows
from store.identity import user_id
from store.memory.held_fact_queries import FRESH, IN_SESSION, NAMES, RANKED_FACTS, SAID_COLUMNS, Whose
from store.text.normal_forms import fold_name

#: The most terms of an input that are looked for in facts: the longest.
TERMS = 32
#: Fewest bytes of a term; shorter ones match nothing.
LEAST_TERM = 2
_IGNORED = frozenset(
    ("the", "a", "an", "and", "or", "is", "are", "am", "to", "of", "my", "what", "who", "do", "you", "i")
)
_SEPARATORS = str.maketrans(dict.fromkeys("?!.,;:\"'", " "))
_NAME_WORD = re.compile(r"[^\W_](?:[\w'-]*\w)?")
_LIKE = str.maketrans({"\\": r"\\", "%": r"\%", "_": r"\_"})


@dataclass(frozen=True, slots=True)
class HoldingFact:
    """A valid fact; `confidence` is the text of its event.

    `subject` is the name of the person that it is about; None where no name is known. `statement` is the fact as a
    sentence, which begins with that name or "The user". `owner` is the subject in the store: a user's id, or a name.
    """

    fact_id: str
    key: str
    value: str = field(repr=False)
    subject: str | None = field(repr=False)
    whose: Whose
    tier: str
    confidence: str | None
    said_at: datetime
    statement: str = field(repr=False)
    owner: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class FactQuestion:
    """For whom and for what facts are ranked.

    `own` are the subjects of the speaker's facts; `is_known`: the caller says who speaks. `said` is the turn's input.
    """

    own: frozenset[str] = field(repr=False)
    is_known: bool
    said: str = field(repr=False)

    def as_parameters(self, host: UUID, now: datetime) -> dict[str, Any]:
        """Return the parameters of the queries."""
        folded = fold_name(self.said)
        words = _NAME_WORD.findall(folded)
        names = {*words, *(word.removesuffix("'s") for word in words)}
        return {
            "own": sorted(self.own),
            "is_known": self.is_known,
            "patterns": build_patterns(folded),
            "names": sorted(names - _IGNORED),
            "nameless_user": str(user_id(host, None)),
            "fresh_from": now - FRESH,
        }


def choose_terms(folded: str) -> list[str]:
    """Return the terms of a folded input that are looked for in facts, the longest first."""
    found = {term for term in folded.translate(_SEPARATORS).split() if len(term.encode()) >= LEAST_TERM}
    return sorted(found - _IGNORED, key=lambda term: (-len(term), term))[:TERMS]


def build_patterns(folded: str) -> list[str]:
    """Return the patterns (of `like`) by which the terms of a folded input are looked for in facts."""
    return [f"%{term.translate(_LIKE)}%" for term in choose_terms(folded)]


async def read_ranked_facts(
    connection: AsyncConnection, place: Mapping[str, Any], said: Sequence[SaidFact], asked: FactQuestion
) -> list[HoldingFact]:
    """Return the first facts by rank, in the tenant's transaction.

    `place`: `host`, `bank`, `now`, `most`, and `session` where that session's facts alone are asked for. `said` are
    the facts of waiting turns; those that were projected meanwhile are among the rest.
    """
    told, denied = settle_said(said)
    parameters = {**place, **asked.as_parameters(place["host"], place["now"]), **_as_arrays(told, denied)}
    introductions = [one for one in said if one.identity.fact_id == OWN_NAME and not one.fact.denied]
    introduced = {one.identity.subject: one.value for one in introductions}
    parameters["introduced"] = sorted(introduced)
    parameters["called"] = [
        subject
        for subject, name in sorted(introduced.items())
        if not {*name.split(" ")[:1], *name.split(" ")[-1:]}.isdisjoint(parameters["names"])
    ]
    rows = await fetch_rows(connection, RANKED_FACTS if place.get("session") is None else IN_SESSION, parameters)
    waiting = {one.unit_id: one for one in said}
    names = {one.identity.subject: one.fact.value for one in introductions}
    return [_build_fact(row, waiting.get(row.unit_id) if row.waits else None, names) for row in rows]


async def read_names(
    connection: AsyncConnection, place: Mapping[str, Any], users: Sequence[UUID]
) -> Mapping[UUID, str]:
    """Return the names that these users state as their own, in the tenant's transaction; `place`: host, bank, now."""
    rows = await fetch_rows(connection, NAMES, {**place, "subjects": [str(user) for user in users]})
    return {UUID(row.subject): row.name for row in rows if row.name}


@dataclass(frozen=True, slots=True)
class SettledFact:
    """The last fact of an identity that waiting turns state; `ended`: it was denied after it."""

    said: SaidFact
    ended: bool = False


def settle_said(said: Sequence[SaidFact]) -> tuple[list[SettledFact], list[SaidFact]]:
    """Return the last fact of each identity that waiting turns state, and the denials."""
    told, denied = dict[Identity, SettledFact](), list[SaidFact]()
    for one in sorted(said, key=lambda one: (one.said_at, one.said)):
        line = one.identity.line
        if not one.fact.denied:
            told[line] = SettledFact(one)
            continue
        denied.append(one)
        last = told.get(line)
        if last is not None and (last.said.identity, last.said.value) == (one.identity, one.value):
            told[line] = replace(last, ended=True)
    return [*told.values()], denied


def _as_arrays(told: Sequence[SettledFact], denied: Sequence[SaidFact]) -> dict[str, list[Any]]:
    rows = [
        (
            one.said.unit_id,
            one.said.identity.subject,
            one.said.identity.fact_id,
            one.said.identity.key,
            one.said.value,
            weigh_fact(one.said.fact.tier.value, one.said.fact.confidence),
            one.said.said_at,
            one.said.said,
            one.ended,
        )
        for one in told
    ]
    columns = zip(*rows, strict=True) if rows else [()] * len(SAID_COLUMNS)
    return {
        **{f"said_{name}": list(values) for name, values in zip(SAID_COLUMNS, columns, strict=True)},
        "denied_fact_id": [one.identity.fact_id for one in denied],
        "denied_subject": [one.identity.subject for one in denied],
        "denied_key": [one.identity.key for one in denied],
        "denied_value": [one.value for one in denied],
    }


def _build_fact(row: DriverRow, waiting: SaidFact | None, names: Mapping[str, str]) -> HoldingFact:
    if waiting is None:
        return HoldingFact(
            fact_id=row.fact_id,
            key=row.shown_key,
            value=row.shown_value,
            subject=row.name or names.get(row.subject),
            whose=Whose(row.whose),
            tier=row.tier,
            confidence=row.confidence,
            said_at=row.valid_from,
            statement=row.content,
            owner=row.subject,
        )
    fact = waiting.fact
    return HoldingFact(
        fact_id=fact.fact_id,
        key=fact.key,
        value=fact.value,
        subject=fact.subject or names.get(row.subject) or row.name,
        whose=Whose(row.whose),
        tier=fact.tier.value,
        confidence=f"{fact.confidence:g}",
        said_at=waiting.said_at,
        statement=fact.statement,
        owner=row.subject,
    )
