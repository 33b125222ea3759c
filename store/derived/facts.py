"""Validity of facts: a fact holds until another value for its subject and key is said, or its own is denied.

A fact of a kind that contradicts another (likes, dislikes) ends that as another value does.

A fact is valid from when it was said; one that was said to be of a later time than its acceptance, from that.

Facts of one moment (all of an imported history without times) follow in the order of their turns, not in the order in
which workers read these. No fact is rewritten: which fact supersedes another is derived from the facts that exist, so
after a fact is forgotten, the one before it holds again. Of equal facts that hold, each but the newest is consolidated
by the next.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    CTE,
    ColumnElement,
    Double,
    FromClause,
    Integer,
    Select,
    Text,
    Update,
    Uuid,
    and_,
    any_,
    bindparam,
    case,
    cast,
    column,
    delete,
    false,
    func,
    null,
    or_,
    select,
    true,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import distinct_on, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from store.ledger.stages import Stage
from store.schema import FACT, LEDGER, TURN, UNIT, in_bank
from store.sql_constants import ZERO, inline

#: Facts of which a subject can have several at a time, such as likes. Their value is part of their key.
MANY_VALUED = ("user_like", "user_dislike", "user_preference", "user_allergy", "today_task", "weekly_task")

#: Kinds of facts that contradict each other: of one key, the one that was said last holds.
OPPOSITES: Mapping[str, str] = MappingProxyType({"user_like": "user_dislike", "user_dislike": "user_like"})

#: The entry in the metadata of a fact's unit by which the fact is a denial.
DENIED = "denied"
#: What the tier adds to the score of a fact, by the contract of the turn tools; another tier is L2.
TIER_BONUS = {"L0": 0.35, "L2": 0.20, "L1": 0.10}
#: A confidence as events write it, from 0 to 1.
_SURE = r"^(0|1|0?\.\d{1,9}|1\.0{1,9})$"

#: The unit that states a fact.
STATED_UNIT = UNIT.alias("u")
_UNIT, _TURN, _LEDGER, _FACT = STATED_UNIT, TURN.alias("g"), LEDGER.alias("l"), FACT.alias("f")
_IDENTITY = ("fact_id", "subject", "key")
_ROW = (
    "host_id",
    "bank_id",
    "unit_id",
    "subject",
    "fact_id",
    "key",
    "value",
    "position",
    "valid_from",
    "said",
    "denied",
    "weight",
)
#: The order in which facts of one identity follow each other.
_IN_TIME = ("valid_from", "said", "position", "unit_id")
_LINE = ("line", "subject", "key")


def weigh_fact(tier: str, confidence: float) -> float:
    """Return what confidence and tier add to the score of a fact."""
    return confidence + TIER_BONUS.get(tier, TIER_BONUS["L2"])


def _weigh_metadata(metadata: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the weight of a fact by its metadata; a confidence that is none from 0 to 1 adds nothing."""
    tier, confidence = (metadata[inline(name)].astext for name in ("tier", "confidence"))
    sure = case((confidence.regexp_match(inline(_SURE)), cast(confidence, Double)), else_=inline(0))
    bonus = case(
        *((tier == inline(name), cast(inline(str(more)), Double)) for name, more in TIER_BONUS.items()),
        else_=cast(inline(str(TIER_BONUS["L2"])), Double),
    )
    return sure + bonus


def name_line(fact_id: str) -> str:
    """Return the kind under which facts of a kind and of its opposite follow each other in time."""
    return min(fact_id, OPPOSITES.get(fact_id, fact_id))


def line_of(fact_id: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the expression of `name_line`."""
    named = {inline(one): inline(name_line(one)) for one in OPPOSITES}
    return case(*((fact_id == one, line) for one, line in named.items()), else_=fact_id)


def opposite_of(fact_id: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the expression of the kind that contradicts a kind, null where there is none."""
    return case(*((fact_id == inline(one), inline(other)) for one, other in OPPOSITES.items()))


def select_stated(*of: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
    """Return the query of the facts that living units state; takes `many` (MANY_VALUED).

    Facts of people without a name are told apart by their user ids.
    """
    metadata = _UNIT.c["metadata"]
    fact_id, key, value = (metadata[inline(name)].astext for name in ("fact_id", "key", "value"))
    subject = func.nullif(metadata[inline("subject")].astext, inline(""))
    turn_position = (
        select(_TURN.c.position)
        .where(_TURN.c.host_id == _UNIT.c.host_id, _TURN.c.turn_id == _UNIT.c.turn_id)
        .scalar_subquery()
    )
    many_valued = fact_id == any_(bindparam("many", type_=ARRAY(Text)))
    return select(
        _UNIT.c.host_id,
        _UNIT.c.bank_id,
        _UNIT.c.unit_id,
        func.afterturn.folded(func.coalesce(subject, cast(_UNIT.c.user_id, Text))).label("subject"),
        fact_id.label("fact_id"),
        case((many_valued, func.afterturn.folded(value)), else_=func.afterturn.folded(key)).label("key"),
        func.afterturn.folded(value).label("value"),
        _UNIT.c.position,
        func.least(_UNIT.c.event_date, _UNIT.c.update_ts).label("valid_from"),
        func.coalesce(turn_position, _UNIT.c.position).label("said"),
        metadata[inline(DENIED)].astext.is_not(None).label("denied"),
        _weigh_metadata(metadata).label("weight"),
    ).where(
        *of,
        _UNIT.c.active,
        _UNIT.c.origin == inline("extraction"),
        fact_id.is_not(None),
        key.is_not(None),
        value.is_not(None),
    )


@dataclass(frozen=True, slots=True)
class FactStretches:
    """Facts in the order of time: successive facts with one value form a stretch.

    `lined`: every fact with the number of its stretch; `begun`: the first fact of each stretch. A stretch ends where
    the next one begins. A denial of the value that holds begins one in which nothing holds; any other changes nothing.
    """

    lined: CTE
    begun: CTE


def find_next_statement(fact: FromClause, identity: Sequence[str], of_it: str = "unit_id") -> ColumnElement[Any]:
    """Return a column of the next fact that says the same as one of FactStretches: in a stretch all but denials do."""
    same = [*(fact.c[name] for name in identity), fact.c.stretch, fact.c.denied]
    return func.lead(fact.c[of_it]).over(partition_by=same, order_by=[fact.c[name] for name in _IN_TIME])


def find_end(fact: FromClause, following: FromClause) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    """Return when a fact ends, and the fact that ends it: `following`, the first of the next stretch, if any.

    A denial ends as it begins.
    """
    until = case((fact.c.denied, fact.c.valid_from), else_=following.c.valid_from)
    return until, case((fact.c.denied, cast(null(), Uuid)), else_=following.c.unit_id)


def divide_into_stretches(facts: FromClause, identity: Sequence[str]) -> FactStretches:
    """Return expressions that order the facts of each identity in time and divide them into stretches.

    `identity` names columns of `facts`, and `line`, under which kinds that contradict each other are one.
    """

    def window(rows: FromClause) -> dict[str, Any]:
        return {
            "partition_by": [rows.c[name] for name in identity],
            "order_by": [rows.c[name] for name in _IN_TIME],
        }

    told = facts.c.fact_id.concat(inline(" ")).concat(facts.c.value).label("told")
    named = select(facts, line_of(facts.c.fact_id).label("line"), told).subquery("n")
    count = func.sum(cast(~named.c.denied, Integer)).over(**window(named))
    counted = select(named, count.label("nth")).subquery("c")
    # The value of the last statement, and whether a denial of it has followed.
    since = [*(counted.c[name] for name in identity), counted.c.nth]
    holds = func.max(case((~counted.c.denied, counted.c.told))).over(partition_by=since)
    held = select(counted, holds.label("holds")).subquery("h")
    since = [*(held.c[name] for name in identity), held.c.nth]
    ended = func.bool_or(and_(held.c.denied, held.c.told == held.c.holds)).over(
        partition_by=since, order_by=[held.c[name] for name in _IN_TIME]
    )
    judged = select(held, func.coalesce(ended, false()).label("ended")).subquery("j")
    lagged = [func.lag(judged.c[name]).over(**window(judged)).label(f"{name}_before") for name in ("holds", "ended")]
    before = select(judged, *lagged).subquery("f")
    another = cast(
        or_(
            before.c.holds.is_distinct_from(before.c.holds_before),
            before.c.ended.is_distinct_from(before.c.ended_before),
        ),
        Integer,
    )
    lined = select(before, func.sum(another).over(**window(before)).label("stretch")).cte("lined")
    stretch = [*(lined.c[name] for name in identity), lined.c.stretch]
    begun = (
        select(lined).ext(distinct_on(*stretch)).order_by(*stretch, *(lined.c[name] for name in _IN_TIME)).cte("begun")
    )
    return FactStretches(lined, begun)


_GONE = func.unnest(bindparam("units", type_=ARRAY(Uuid))).table_valued(column("unit_id", Uuid)).render_derived("g")
REMOVE = (
    delete(FACT)
    .where(in_bank(FACT), FACT.c.unit_id == _GONE.c.unit_id)
    .returning(*(FACT.c[name] for name in _IDENTITY))
)
# All facts of these turns, including those that a rebuild has added already, whose validity is not derived yet.
_STATED = (
    select_stated(in_bank(_UNIT), _UNIT.c.turn_id == any_(bindparam("turns", type_=ARRAY(Uuid))))
    .cte("stated")
    .prefix_with("materialized")
)
ADD = select(*(_STATED.c[name] for name in _IDENTITY)).add_cte(
    insert(FACT).from_select(_ROW, select(*(_STATED.c[name] for name in _ROW))).on_conflict_do_nothing().cte("added")
)
CLEAR = delete(FACT).where(in_bank(FACT))
_TURN_IS_KNOWN = select(true()).where(_TURN.c.host_id == _UNIT.c.host_id, _TURN.c.turn_id == _UNIT.c.turn_id)
_TURN_WAITS = select(true()).where(
    _LEDGER.c.host_id == _UNIT.c.host_id,
    _LEDGER.c.stage == inline(Stage.PROJECTION),
    _LEDGER.c.item_id == _UNIT.c.turn_id,
    _LEDGER.c.status != inline("done"),
)
ADD_ALL = (
    insert(FACT)
    .from_select(
        _ROW,
        select_stated(
            in_bank(_UNIT),
            _TURN_IS_KNOWN.scalar_subquery().is_not(None),
            _TURN_WAITS.scalar_subquery().is_(None),
        ),
    )
    .returning(*(FACT.c[name] for name in _IDENTITY))
)


def _line_up_identities() -> Update:
    """Return the statement that ends each fact of some identities where the next stretch begins."""
    names = {name: bindparam(f"{name}s", type_=ARRAY(Text)) for name in _IDENTITY}
    asked = func.unnest(*names.values()).table_valued(*(column(name, Text) for name in _IDENTITY)).render_derived("t")
    ends_by = ("valid_to", "superseded_by", "consolidated_by")
    read = (*_IDENTITY, "unit_id", "value", "valid_from", "said", "position", "denied", *ends_by)
    facts = (
        select(*(_FACT.c[name] for name in read))
        .where(in_bank(_FACT), *(_FACT.c[name] == asked.c[name] for name in _IDENTITY))
        .offset(ZERO)
        .lateral("f")
    )
    of_asked = select(facts).join_from(asked, facts, true()).subquery("facts")
    found = divide_into_stretches(of_asked, _LINE)
    lined, begun = found.lined.alias("l"), found.begun.alias("b")
    follows = and_(*(begun.c[name] == lined.c[name] for name in _LINE), begun.c.stretch == lined.c.stretch + 1)
    until, by = find_end(lined, begun)
    again = case((until.is_(None), find_next_statement(lined, _LINE)))
    ends = (
        select(lined.c.unit_id, until.label("valid_to"), by.label("superseded_by"), again.label("consolidated_by"))
        .join_from(lined, begun, follows, isouter=True)
        .subquery("ends")
    )
    return (
        update(FACT)
        .values({name: ends.c[name] for name in ends_by})
        .where(
            in_bank(FACT),
            FACT.c.unit_id == ends.c.unit_id,
            tuple_(*(FACT.c[name] for name in ends_by)).is_distinct_from(tuple_(*(ends.c[name] for name in ends_by))),
        )
    )


LINE_UP = _line_up_identities()


@dataclass(frozen=True, slots=True, order=True)
class Identity:
    """The subject and key of a fact; facts of one identity follow each other in time."""

    fact_id: str
    subject: str
    key: str

    @property
    def line(self) -> "Identity":
        """The identity that is shared with facts that contradict it."""
        return replace(self, fact_id=name_line(self.fact_id))


async def refresh_facts(
    connection: AsyncConnection, host: UUID, bank: UUID, turns: Sequence[UUID], gone: Sequence[UUID]
) -> list[Identity]:
    """Add the facts of these turns, remove those of the units in `gone`; return the identities of both."""
    place = {"host": host, "bank": bank}
    removed = (await connection.execute(REMOVE, {**place, "units": list(gone)})).all() if gone else []
    arguments = {**place, "turns": list(turns), "many": list(MANY_VALUED)}
    added = (await connection.execute(ADD, arguments)).all() if turns else []
    return await _line_up(connection, host, bank, {Identity(*row) for row in (*removed, *added)})


async def rebuild_facts(connection: AsyncConnection, host: UUID, bank: UUID) -> list[Identity]:
    """Rebuild the facts of a bank from its projected turns; return their identities."""
    place = {"host": host, "bank": bank}
    await connection.execute(CLEAR, place)
    rows = (await connection.execute(ADD_ALL, {**place, "many": list(MANY_VALUED)})).all()
    return await _line_up(connection, host, bank, {Identity(*row) for row in rows})


async def _line_up(connection: AsyncConnection, host: UUID, bank: UUID, touched: set[Identity]) -> list[Identity]:
    identities = add_opposites(touched)
    if identities:
        await connection.execute(LINE_UP, {"host": host, "bank": bank, **identity_columns(identities)})
    return identities


def add_opposites(identities: Iterable[Identity]) -> list[Identity]:
    """Return identities and those that contradict them, sorted."""
    asked = set(identities)
    opposite = {replace(one, fact_id=OPPOSITES[one.fact_id]) for one in asked if one.fact_id in OPPOSITES}
    return sorted(asked | opposite)


def identity_columns(identities: Sequence[Identity]) -> dict[str, list[str]]:
    """Return identities as the parameters `fact_ids`, `subjects` and `keys`."""
    return {
        "fact_ids": [one.fact_id for one in identities],
        "subjects": [one.subject for one in identities],
        "keys": [one.key for one in identities],
    }
