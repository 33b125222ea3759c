"""Reads the facts that hold, ranked for a turn: by whose they are, then by the score of the turn tools' contract.

The speaker's own facts come first, then those of people whom the input names, then the bank's others. Facts of
another user without a name are left out where the speaker is known: they would have no owner.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    CTE,
    BigInteger,
    Boolean,
    ColumnElement,
    Double,
    FromClause,
    Integer,
    Select,
    Text,
    Uuid,
    any_,
    bindparam,
    case,
    cast,
    column,
    extract,
    false,
    func,
    null,
    or_,
    select,
    true,
    tuple_,
    union_all,
)
from sqlalchemy.dialects.postgresql import array, distinct_on
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.expression import ColumnCollection
from sqlalchemy.types import TypeEngine

from store.derived.facts import Identity, line_of, opposite_of, weigh_fact
from store.derived.own_names import OWN_NAME
from store.derived.said_facts import SaidFact
from store.driver_rows import DriverRow, fetch_rows
from store.expiry import bank_lasts, row_lasts
from store.identity import user_id
from store.schema import FACT, TIME, UNIT, in_bank
from store.sql_constants import ONE, ZERO, inline
from store.text.normal_forms import fold_name

#: The most facts that are ranked: the speaker's, and the newest others of the bank.
RANKED = 20_000
#: The most terms of an input that are looked for in facts: the longest.
TERMS = 32
#: Fewest bytes of a term; shorter ones match nothing.
LEAST_TERM = 2
#: How long the age of a fact counts.
FRESH = timedelta(hours=60)

# The contract's score: what a new fact has more, what a fact has more that a term of the input is in, and what each
# such term adds to that.
_FRESHNESS, _MATCH, _TERM = (cast(inline(number), Double) for number in ("0.25", "0.25", "0.15"))
_IGNORED = frozenset(
    ("the", "a", "an", "and", "or", "is", "are", "am", "to", "of", "my", "what", "who", "do", "you", "i")
)
_SEPARATORS = str.maketrans(dict.fromkeys("?!.,;:\"'", " "))
_NAME_WORD = re.compile(r"[^\W_](?:[\w'-]*\w)?")
_LIKE = str.maketrans({"\\": r"\\", "%": r"\%", "_": r"\_"})


class Whose(IntEnum):
    """Whose a fact is, in the order in which facts are told."""

    OWN = 0
    NAMED = 1
    OTHERS = 2


@dataclass(frozen=True, slots=True)
class HoldingFact:
    """A valid fact; `confidence` is the text of its event.

    `subject` is the name of the person that it is about; None where no name is known. `statement` is the fact as a
    sentence, which begins with that name or "The user".
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
            "nobody": str(user_id(host, None)),
            "fresh_from": now - FRESH,
        }


def choose_terms(folded: str) -> list[str]:
    """Return the terms of a folded input that are looked for in facts, the longest first."""
    found = {term for term in folded.translate(_SEPARATORS).split() if len(term.encode()) >= LEAST_TERM}
    return sorted(found - _IGNORED, key=lambda term: (-len(term), term))[:TERMS]


def build_patterns(folded: str) -> list[str]:
    """Return the patterns (of `like`) by which the terms of a folded input are looked for in facts."""
    return [f"%{term.translate(_LIKE)}%" for term in choose_terms(folded)]


_COLUMNS: Mapping[str, TypeEngine[Any]] = {
    "unit_id": Uuid(),
    **dict.fromkeys(("subject", "fact_id", "key", "value"), Text()),
    "weight": Double(),
    "valid_from": TIME,
    "position": BigInteger(),
}
_FACT, _UNIT, _NAMED = FACT.alias("f"), UNIT.alias("u"), FACT.alias("n")
_OWN, _NAMES, _PATTERNS = (bindparam(name, type_=ARRAY(Text)) for name in ("own", "names", "patterns"))
# Users who state their names in waiting turns, and those of them whom the input names.
_INTRODUCED, _CALLED = (bindparam(name, type_=ARRAY(Text)) for name in ("introduced", "called"))
_NOW = bindparam("now", type_=TIME)
_LIMIT = bindparam("most", type_=Integer)
# Facts of waiting turns, as arrays; one that is `ended` was denied afterwards, and ended the facts before it.
_SAID_COLUMNS: Mapping[str, TypeEngine[Any]] = {**_COLUMNS, "ended": Boolean()}
_SAID = (
    func.unnest(*(bindparam(f"said_{name}", type_=ARRAY(of)) for name, of in _SAID_COLUMNS.items()))
    .table_valued(*(column(name, of) for name, of in _SAID_COLUMNS.items()))
    .render_derived("s")
)
# Denials of waiting turns: each ends the fact of its identity and value.
_DENIED_COLUMNS = ("fact_id", "subject", "key", "value")
_DENIED = (
    func.unnest(*(bindparam(f"denied_{name}", type_=ARRAY(Text)) for name in _DENIED_COLUMNS))
    .table_valued(*(column(name, Text) for name in _DENIED_COLUMNS))
    .render_derived("d")
)
# The names of the found facts in a statement: the speaker's, others', both.
_FOUND: Mapping[bool | None, str] = {True: "found_own", False: "found_of_others", None: "found"}
# Users who state their names.
_STATED = (in_bank(_NAMED), _NAMED.c.fact_id == inline(OWN_NAME), _NAMED.c.valid_to.is_(None))


def _begins_or_ends_with(name: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that the input has the first or the last word of a name."""
    first, last = (func.split_part(name, inline(" "), place) for place in (ONE, inline(-1)))
    return or_(first == any_(_NAMES), last == any_(_NAMES))


def _has_a_name(subject: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that a subject has a name, or is no user."""
    return or_(
        subject.not_like(inline("________-____-____-____-____________")),
        subject == bindparam("nobody", type_=Text),
        subject == any_(_INTRODUCED),
        subject.in_(select(_NAMED.c.subject).where(*_STATED)),
    )


def _select_ranked(facts: FromClause, *, own: bool | None) -> Select[*tuple[Any, ...]]:
    """Return the query of these facts by rank, as far as their units are remembered.

    `own`: the speaker's alone, or others' alone; None: both.
    """
    found = _select_candidates(facts, own=own).cte(_FOUND[own]).prefix_with("materialized")
    is_named = or_(
        found.c.subject == any_(_CALLED),
        _begins_or_ends_with(found.c.subject),
        found.c.subject.in_(select(_NAMED.c.subject).where(*_STATED, _begins_or_ends_with(_NAMED.c.value))),
    )
    whose = case(
        (found.c.subject == any_(_OWN), inline(Whose.OWN)), (is_named, inline(Whose.NAMED)), else_=inline(Whose.OTHERS)
    )
    score = (found.c.weight + _score_age(found.c.valid_from) + _score_terms(found)).label("score")
    ranked = select(found, whose.label("whose"), score).subquery("scored")
    order = (
        ranked.c.whose,
        *(ranked.c[name].desc() for name in ("score", "valid_from", "weight", "position", "unit_id")),
    )
    first = select(ranked).order_by(*order).offset(ZERO).subquery("ranked")
    return _select_told(first)


def _select_candidates(facts: FromClause, *, own: bool | None) -> Select[*tuple[Any, ...]]:
    """Return the query of these facts and of those of waiting turns; of one identity the one that was said last."""

    def is_asked(subject: ColumnElement[Any]) -> ColumnElement[bool]:
        if own is None:
            return or_(subject == any_(_OWN), ~bindparam("is_known", type_=Boolean), _has_a_name(subject))
        if own:
            return subject == any_(_OWN)
        return ~(subject == any_(_OWN)) & or_(~bindparam("is_known", type_=Boolean), _has_a_name(subject))

    waits = _PENDING.c

    def line_up(of: ColumnCollection[str, Any]) -> tuple[ColumnElement[Any], ...]:
        return line_of(of["fact_id"]), of["subject"], of["key"]

    held = select(*(facts.c[name] for name in _COLUMNS), false().label("waits")).where(
        in_bank(facts),
        facts.c.valid_to.is_(None),
        facts.c.consolidated_by.is_(None),
        is_asked(facts.c.subject),
        tuple_(*line_up(facts.c)).not_in(select(*line_up(waits))),
        tuple_(*(facts.c[name] for name in _DENIED_COLUMNS)).not_in(select(_DENIED)),
        bank_lasts(),
    )
    waiting = select(*(waits[name] for name in _COLUMNS), true().label("waits"))
    waiting = waiting.where(~waits.ended, is_asked(waits.subject))
    # WHY apart: a speaker's facts are few, and found by the subject; their order would lead through all of the bank.
    found = held.offset(ZERO).subquery("found") if own else facts
    rows = select(found) if own else held
    newest_first = (found.c.valid_from.desc(), found.c.position.desc())
    newest = rows.order_by(*newest_first).limit(inline(RANKED)).subquery("held")
    return select(union_all(select(newest), waiting).subquery("both"))


def _find_pending() -> CTE:
    """Return the facts of waiting turns that no later fact of their identity has superseded already."""
    # As a lookup for each waiting fact: a join would read all facts of the bank.
    same = (
        select(_FACT.c.valid_from, _FACT.c.position)
        .where(
            in_bank(_FACT),
            _FACT.c.valid_to.is_(None),
            _FACT.c.fact_id == any_(array([_SAID.c.fact_id, opposite_of(_SAID.c.fact_id)])),
            *(_FACT.c[name] == _SAID.c[name] for name in ("subject", "key")),
        )
        .offset(ZERO)
        .lateral("same")
    )
    is_later = tuple_(same.c.valid_from, same.c.position) > tuple_(_SAID.c.valid_from, _SAID.c.position)
    later = select(true()).select_from(same).where(is_later).limit(ONE).scalar_subquery()
    return select(_SAID).where(later.is_(None)).cte("pending").prefix_with("materialized")


_PENDING = _find_pending()


def _score_age(valid_from: ColumnElement[Any]) -> ColumnElement[Any]:
    age = cast(extract("epoch", _NOW - valid_from), Double)
    left = func.least(_FRESHNESS, func.greatest(inline(0), _FRESHNESS - age / inline(int(FRESH.total_seconds() * 4))))
    return case((valid_from > bindparam("fresh_from", type_=TIME), left), else_=inline(0))


def _score_terms(of: FromClause) -> ColumnElement[Any]:
    """Return what the terms of the input add that a fact has, wherever in its words."""
    told = of.c.fact_id.concat(inline(" ")).concat(of.c.key).concat(inline(" ")).concat(of.c.value)
    pattern = func.unnest(_PATTERNS).table_valued(column("pattern", Text)).render_derived("p")
    matched = select(func.count()).select_from(pattern).where(told.like(pattern.c.pattern)).scalar_subquery()
    return case((told.like(any_(_PATTERNS)), _MATCH + _TERM * matched), else_=inline(0))


def _select_told(ranked: FromClause) -> Select[*tuple[Any, ...]]:
    """Return the query of the first of these facts, told by their units, in this order."""
    columns = ("subject", "key", "value", "tier", "confidence")
    told = (_UNIT.c["metadata"][inline(name)].astext.label(name) for name in columns)
    unit = (
        select(_UNIT.c.unit_id, _UNIT.c.content, *told)
        .where(in_bank(_UNIT), _UNIT.c.unit_id == ranked.c.unit_id, _UNIT.c.active, row_lasts(_UNIT))
        .limit(ONE)
        .lateral("unit")
    )
    said = UNIT.alias("said")
    stated = (
        select(said.c["metadata"][inline("value")].astext)
        .where(
            *_STATED,
            _NAMED.c.subject == ranked.c.subject,
            in_bank(said),
            said.c.unit_id == _NAMED.c.unit_id,
            said.c.active,
            row_lasts(said),
        )
        .limit(ONE)
        .scalar_subquery()
    )
    return (
        select(
            ranked,
            func.coalesce(func.nullif(unit.c.subject, inline("")), stated).label("name"),
            func.coalesce(unit.c.key, ranked.c.key).label("shown_key"),
            func.coalesce(unit.c.value, ranked.c.value).label("shown_value"),
            func.coalesce(unit.c.tier, inline("L2")).label("tier"),
            unit.c.confidence,
            unit.c.content,
        )
        .join_from(ranked, unit, true(), isouter=True)
        .where(or_(ranked.c.waits, unit.c.unit_id.is_not(None)))
        .limit(_LIMIT)
    )


def _select_facts_of_session() -> FromClause:
    """Return the expression of a session's facts, looked up one by one: few units of a session are no messages.

    A fact may be consolidated by one of another session: of equal ones the newest of the session is told.
    """
    fact = select(_FACT).where(in_bank(_FACT), _FACT.c.unit_id == _UNIT.c.unit_id).offset(ZERO).lateral("f")
    said = [fact.c[name] for name in ("fact_id", "subject", "key", "value")]
    columns = [column for column in fact.c if column.name != "consolidated_by"]
    return (
        select(*columns, cast(null(), Uuid).label("consolidated_by"))
        .ext(distinct_on(*said))
        .join_from(_UNIT, fact, true())
        .where(
            in_bank(_UNIT),
            _UNIT.c.session_id == bindparam("session", type_=Uuid),
            _UNIT.c.seq.is_(None),
            fact.c.valid_to.is_(None),
        )
        .order_by(*said, fact.c.valid_from.desc(), fact.c.position.desc())
        .subquery("facts")
    )


OWN, OTHERS = (_select_ranked(FACT.alias("held_fact"), own=own) for own in (True, False))
# The others are ranked only where the speaker's own facts leave room: rows are read in this order up to the limit.
RANKED_FACTS = union_all(select(OWN.subquery("own")), select(OTHERS.subquery("others"))).limit(_LIMIT)
IN_SESSION = _select_ranked(_select_facts_of_session(), own=None)


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
    columns = zip(*rows, strict=True) if rows else [()] * len(_SAID_COLUMNS)
    return {
        **{f"said_{name}": list(values) for name, values in zip(_SAID_COLUMNS, columns, strict=True)},
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
    )
