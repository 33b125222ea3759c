"""The statements that rank the facts that hold: those of the projection, and those of waiting turns as arrays."""

from collections.abc import Mapping
from datetime import timedelta
from enum import IntEnum
from typing import Any

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
    and_,
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
from sqlalchemy.sql.expression import ColumnCollection
from sqlalchemy.types import TypeEngine

from store.derived.facts import line_of, opposite_of
from store.derived.own_names import OWN_NAME
from store.expiry import bank_lasts, row_lasts
from store.schema import FACT, ID_LIKE, TIME, UNIT, in_bank
from store.sql_constants import ONE, ZERO, inline

#: The most facts that are ranked: the speaker's, and the newest others of the bank.
RANKED = 20_000
#: How long the age of a fact counts.
FRESH = timedelta(hours=60)

# The contract's score: what a new fact has more, what a fact has more that a term of the input is in, and what each
# such term adds to that.
_FRESHNESS, _MATCH, _TERM = (cast(inline(number), Double) for number in ("0.25", "0.25", "0.15"))


class Whose(IntEnum):
    """Whose a fact is, in the order in which facts are told."""

    OWN = 0
    NAMED = 1
    OTHERS = 2


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
#: Facts of waiting turns, as arrays; one that is `ended` was denied afterwards, and ended the facts before it.
SAID_COLUMNS: Mapping[str, TypeEngine[Any]] = {**_COLUMNS, "ended": Boolean()}
_SAID = (
    func.unnest(*(bindparam(f"said_{name}", type_=ARRAY(of)) for name, of in SAID_COLUMNS.items()))
    .table_valued(*(column(name, of) for name, of in SAID_COLUMNS.items()))
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
    """Return the condition that the input has the first or the last word of a name; most names are one word."""
    first, last = (func.split_part(name, inline(" "), place) for place in (ONE, inline(-1)))
    is_word = func.strpos(name, inline(" ")) == ZERO
    return case((is_word, name == any_(_NAMES)), else_=or_(first == any_(_NAMES), last == any_(_NAMES)))


def _has_a_name(subject: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that a subject has a name, or is no user."""
    return or_(
        subject.not_like(inline(ID_LIKE)),
        subject == bindparam("nameless_user", type_=Text),
        subject == any_(_INTRODUCED),
        subject.in_(select(_NAMED.c.subject).where(*_STATED)),
    )


def _rank(facts: FromClause, *, own: bool | None) -> Select[*tuple[Any, ...]]:
    """Return the query of these facts by rank.

    `own`: the speaker's alone, or others' alone; None: both. The first are sorted alone, and the rest only where they
    are read: few of a bank's facts are told, and a unit that ended may leave room for others.
    """
    scored = _score_candidates(facts, own=own)
    order = (
        scored.c.whose,
        *(scored.c[name].desc() for name in ("score", "valid_from", "weight", "position", "unit_id")),
    )
    in_order, first = select(scored).order_by(*order), _LIMIT + _LIMIT
    return select(union_all(in_order.limit(first), in_order.offset(first)).subquery())


def _score_candidates(facts: FromClause, *, own: bool | None) -> CTE:
    """Return these facts with `whose` they are, and their `score`."""
    both = _select_candidates(facts, own=own).subquery("both")
    told = both.c.fact_id.concat(inline(" ")).concat(both.c.key).concat(inline(" ")).concat(both.c.value)
    found = select(both, told.label("told")).offset(ZERO).subquery(_FOUND[own])
    is_named = or_(
        found.c.subject == any_(_CALLED),
        _begins_or_ends_with(found.c.subject),
        found.c.subject.in_(select(_NAMED.c.subject).where(*_STATED, _begins_or_ends_with(_NAMED.c.value))),
    )
    whose = case(
        (found.c.subject == any_(_OWN), inline(Whose.OWN)), (is_named, inline(Whose.NAMED)), else_=inline(Whose.OTHERS)
    )
    score = (found.c.weight + _score_age(found.c.valid_from) + _score_terms(found.c.told)).label("score")
    return (
        select(*(found.c[one.name] for one in both.c), whose.label("whose"), score)
        .cte(f"scored_{_FOUND[own]}")
        .prefix_with("materialized")
    )


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
    return select(union_all(select(newest), waiting).subquery("read"))


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


def _score_terms(told: ColumnElement[str]) -> ColumnElement[Any]:
    """Return what the terms of the input add that a fact has, wherever in its words."""
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


def _select_names() -> Select[*tuple[Any, ...]]:
    """Return the query of the names that some subjects state as their own, the newest last."""
    said = UNIT.alias("said")
    return (
        select(_NAMED.c.subject, said.c["metadata"][inline("value")].astext.label("name"))
        .join_from(_NAMED, said, and_(in_bank(said), said.c.unit_id == _NAMED.c.unit_id))
        .where(*_STATED, _NAMED.c.subject == any_(bindparam("subjects", type_=ARRAY(Text))))
        .where(said.c.active, row_lasts(said), bank_lasts())
        .order_by(_NAMED.c.valid_from, _NAMED.c.position)
    )


NAMES = _select_names()
_OF_OWN, _OF_OTHERS = (_rank(FACT.alias("held_fact"), own=own) for own in (True, False))
OWN, OTHERS = (_select_told(ranked.subquery("ranked")) for ranked in (_OF_OWN, _OF_OTHERS))
# The others are ranked only where the speaker's own facts leave room: rows are read in this order up to the limit.
RANKED_FACTS = _select_told(union_all(_OF_OWN, _OF_OTHERS).subquery("ranked"))
IN_SESSION = _select_told(_rank(_select_facts_of_session(), own=None).subquery("ranked"))
