"""Reads a person's profile: facts in time order and co-occurring entities.

Read from projections alone; no model is asked. Each fact says where it comes from.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    Boolean,
    ColumnElement,
    FromClause,
    Integer,
    Join,
    Row,
    Select,
    Text,
    Uuid,
    all_,
    and_,
    any_,
    bindparam,
    cast,
    func,
    join,
    literal_column,
    or_,
    select,
    union,
    union_all,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.derived.aliases import PERSONAL
from store.derived.called_names import find_called
from store.derived.facts import Identity
from store.derived.said_facts import SaidFact, read_said_facts
from store.expiry import row_lasts
from store.identity import user_id
from store.schema import BANK, ENTITY_COOCCUR, ENTITY_PROFILE, EVENT_STORE, FACT, UNIT
from store.tenancy.banks import space_ids
from store.tenancy.spaces import Space
from store.text.rules.facts import PASSING

#: What a person says that they are called.
OWN_NAME = "user_name"
#: Events of a user that are looked through for the banks where turns of theirs may wait.
NEWEST_EVENTS = 500
#: Entities that are told of.
BESIDE = 12

_HOST, _NAME = bindparam("host", type_=Uuid), func.afterturn.folded(bindparam("name", type_=Text))
_SUBJECTS = bindparam("subjects", type_=ARRAY(Text))
_PERSONAL = bindparam("personal", type_=ARRAY(Text))
_ASKED_BANKS = bindparam("banks", type_=ARRAY(Text))
_UNIT, _FACT, _WROTE, _BANK = UNIT.alias("u"), FACT.alias("f"), EVENT_STORE.alias("e"), BANK.alias("b")
_PROFILE, _ALIAS = ENTITY_PROFILE.alias("p"), ENTITY_PROFILE.alias("a")

SEEN = select(_BANK.c.bank_id, _BANK.c.bank_name).where(
    _BANK.c.host_id == _HOST,
    _BANK.c.active,
    row_lasts(_BANK),
    or_(_ASKED_BANKS.is_(None), _BANK.c.bank_name == any_(_ASKED_BANKS)),
)
_WRITTEN = (
    select(_WROTE.c.bank_id)
    .where(_WROTE.c.host_id == _HOST, _WROTE.c.user_id == bindparam("user", type_=Uuid))
    .order_by(_WROTE.c.position.desc())
    .limit(literal_column(str(NEWEST_EVENTS)))
    .subquery("w")
)
# Where a user wrote last, however many banks the tenant has: the newest events are at the end of an index.
SEEN_OF_USER = SEEN.where(_BANK.c.bank_id.in_(select(_WRITTEN.c.bank_id)))
_BANKS = SEEN.cte("banks").prefix_with("materialized")


def _in_banks(rows: FromClause) -> ColumnElement[bool]:
    """Say that a row is of one of the banks that are seen."""
    return and_(rows.c.host_id == _HOST, rows.c.bank_id == _BANKS.c.bank_id)


def _means_the_same(of: FromClause, as_one: FromClause) -> ColumnElement[bool]:
    """Say that an entity of these banks is taken for the same as another of its bank."""
    return and_(_in_banks(of), of.c.canonical_id == as_one.c.canonical_id)


# Everything a bank takes for the same person as this name, the name itself, and who said that it is theirs.
SUBJECTS = union(
    select(_NAME),
    select(_ALIAS.c.folded)
    .join_from(
        _BANKS,
        _PROFILE,
        and_(
            _in_banks(_PROFILE),
            _PROFILE.c.stem == func.split_part(_NAME, literal_column("' '"), literal_column("1")),
            _PROFILE.c.folded == _NAME,
            _PROFILE.c.kind == any_(_PERSONAL),
        ),
    )
    .join(_ALIAS, _means_the_same(_ALIAS, _PROFILE)),
    select(_FACT.c.subject).join_from(
        _BANKS,
        _FACT,
        and_(
            _in_banks(_FACT),
            _FACT.c.fact_id == bindparam("own_name"),
            _FACT.c.value == _NAME,
            _FACT.c.valid_to.is_(None),
        ),
    ),
)


def _select_facts(found: Join, *of_whom: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
    """Select facts of a person: those that follow each other with one value are one row.

    It says since when, in how many turns, and which is the newest of them.
    """
    one = (
        _BANKS.c.bank_name,
        *(_FACT.c[name] for name in ("bank_id", "fact_id", "subject", "key", "value", "valid_to", "superseded_by")),
    )
    newest_first = (_FACT.c.valid_from.desc(), _FACT.c.said.desc(), _FACT.c.position.desc(), _FACT.c.unit_id)
    stated = (
        select(
            *one,
            func.min(_FACT.c.valid_from).label("since"),
            func.count(_UNIT.c.turn_id.distinct()).label("stated"),
            func.array_agg(aggregate_order_by(_FACT.c.unit_id, *newest_first))[literal_column("1")].label("unit_id"),
        )
        .select_from(found)
        .where(
            *of_whom,
            _UNIT.c.active,
            row_lasts(_UNIT),
            _FACT.c.fact_id != all_(bindparam("passing", type_=ARRAY(Text))),
            or_(bindparam("history", type_=Boolean), _FACT.c.valid_to.is_(None)),
        )
        .group_by(*one)
        .cte("stated")
        .prefix_with("materialized")
    )
    told = UNIT.alias("told")
    of_fact = told.c["metadata"]
    return (
        select(
            stated,
            of_fact["subject"].astext.label("name"),
            of_fact["key"].astext.label("shown_key"),
            of_fact["value"].astext.label("shown_value"),
            of_fact["confidence"].astext.label("confidence"),
            *(told.c[name] for name in ("content", "session_name", "turn_name", "event_date", "source_memory_ids")),
        )
        .join_from(
            stated,
            told,
            and_(told.c.host_id == _HOST, told.c.bank_id == stated.c.bank_id, told.c.unit_id == stated.c.unit_id),
        )
        .order_by(
            stated.c.valid_to.is_not(None),
            *(stated.c[name] for name in ("fact_id", "subject", "key", "since", "unit_id")),
        )
        .limit(bindparam("limit", type_=Integer))
    )


_SAID_IN_UNIT = and_(_FACT.c.host_id == _HOST, _FACT.c.bank_id == _UNIT.c.bank_id, _FACT.c.unit_id == _UNIT.c.unit_id)
OF_USER = _select_facts(
    join(_UNIT, _BANKS, _BANKS.c.bank_id == _UNIT.c.bank_id).join(_FACT, _SAID_IN_UNIT),
    _UNIT.c.host_id == _HOST,
    _UNIT.c.user_id == bindparam("user", type_=Uuid),
    _UNIT.c.origin == literal_column("'extraction'"),
    or_(_SUBJECTS.is_(None), _FACT.c.subject == any_(_SUBJECTS)),
)
OF_NAME = _select_facts(
    join(_BANKS, _FACT, and_(_in_banks(_FACT), _FACT.c.subject == any_(_SUBJECTS))).join(
        _UNIT,
        and_(_UNIT.c.host_id == _HOST, _UNIT.c.bank_id == _FACT.c.bank_id, _UNIT.c.unit_id == _FACT.c.unit_id),
    )
)


def _select_around() -> Select[str, str, int]:
    """Select who and what occurs in units with a person: aliases count for the one they mean."""
    person = (
        select(_ALIAS.c.bank_id, _ALIAS.c.entity_id)
        .distinct()
        .join_from(
            _BANKS,
            _PROFILE,
            and_(
                _in_banks(_PROFILE),
                _PROFILE.c.folded == any_(_SUBJECTS),
                _PROFILE.c.stem == any_(bindparam("stems", type_=ARRAY(Text))),
                _PROFILE.c.kind == any_(_PERSONAL),
            ),
        )
        .join(_ALIAS, _means_the_same(_ALIAS, _PROFILE))
        .cte("person")
        .prefix_with("materialized")
    )
    pair = ENTITY_COOCCUR.alias("c")
    sides = [
        select(person.c.bank_id, other.label("other"), pair.c.cooccur_count).join_from(
            person,
            pair,
            and_(pair.c.host_id == _HOST, pair.c.bank_id == person.c.bank_id, one == person.c.entity_id),
        )
        for one, other in (
            (pair.c.entity_id_1, pair.c.entity_id_2),
            (pair.c.entity_id_2, pair.c.entity_id_1),
        )
    ]
    pairs = union_all(*sides).cte("pairs")
    other, meant = ENTITY_PROFILE.alias("o"), ENTITY_PROFILE.alias("h")
    units = cast(func.sum(pairs.c.cooccur_count), Integer).label("units")
    return (
        select(meant.c.name, meant.c.kind, units)
        .join_from(
            pairs,
            other,
            and_(other.c.host_id == _HOST, other.c.bank_id == pairs.c.bank_id, other.c.entity_id == pairs.c.other),
        )
        .join(
            meant,
            and_(
                meant.c.host_id == _HOST,
                meant.c.bank_id == pairs.c.bank_id,
                meant.c.entity_id == other.c.canonical_id,
            ),
        )
        .where(meant.c.entity_id.not_in(select(person.c.entity_id)))
        .group_by(meant.c.name, meant.c.kind)
        .order_by(units.desc(), meant.c.name, meant.c.kind)
        .limit(bindparam("limit", type_=Integer))
    )


AROUND = _select_around()


@dataclass(frozen=True, slots=True)
class Whom:
    """A person: a user of the host, a name in a bank, or a user under one of several names."""

    user: str | None = None
    name: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class PersonFact:
    """One fact of a person: it holds `since`, until `until` (None: still), and was stated in `stated` turns.

    `unit_id`, session, turn and `said_at` are those of its newest statement, `sources` the messages that says it.
    `history` are the values before it, the newest first.
    """

    bank: str
    identity: Identity = field(repr=False)
    key: str
    value: str = field(repr=False)
    text: str = field(repr=False)
    unit_id: UUID
    session_id: str | None
    turn_id: str | None
    said_at: datetime
    since: datetime
    until: datetime | None
    superseded_by: UUID | None
    stated: int
    confidence: float | None
    sources: tuple[UUID, ...]
    history: tuple["PersonFact", ...] = ()


@dataclass(frozen=True, slots=True)
class Beside:
    """A person or thing that occurs together with a person, and in how many units."""

    name: str = field(repr=False)
    kind: str
    units: int


@dataclass(frozen=True, slots=True)
class Person:
    """What is known of a person; `names` are those the facts were stated under, `whole` says that nothing was cut."""

    names: tuple[str, ...] = field(repr=False)
    facts: tuple[PersonFact, ...]
    beside: tuple[Beside, ...]
    whole: bool


class Persons:
    """Tells what is known of people."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    async def of(
        self, host: UUID, space: Space, whom: Whom, *, banks: Sequence[str] | None, history: bool, limit: int
    ) -> Person:
        """Tell of a person what the banks of these whole names know (None: all that a caller of `space` may see).

        At most `limit` facts; with `history` also those that something else replaced, beneath what replaced them.
        """
        place = {"host": host, "banks": None if banks is None else list(banks), "now": self._clock()}
        async with self._database.scoped(host, *space_ids(host, space)) as connection:
            user = None if whom.user is None else user_id(host, whom.user)
            seen = SEEN if user is None else SEEN_OF_USER
            said = await read_said_facts(connection, seen, place, user=user)
            subjects = None if whom.name is None else await _read_subjects(connection, place, whom.name, said)
            rows = await _read_fact_rows(connection, {**place, "history": history, "limit": limit + 1}, whom, subjects)
            stored = {row.unit_id for row in rows}
            fresh = [_build_said(one) for one in said if _is_of(one, subjects) and one.unit_id not in stored]
            facts = lined_up([*(_build_known(row) for row in rows[:limit]), *fresh], history=history)
            names = _read_names(rows, said, facts)
            beside = await _read_neighbours(connection, place, sorted({*(subjects or ()), *names}))
        whole = len(rows) <= limit and len(facts) <= limit
        return Person(tuple(sorted(set(names.values()))), tuple(facts[:limit]), beside, whole)


def lined_up(statements: Iterable[PersonFact], *, history: bool) -> list[PersonFact]:
    """Return what holds now, each with its history; of two banks that know different values, the newer holds. Pure."""
    found = []
    for _, of_one in groupby(sorted(statements, key=_sort_key), key=_identity_of):
        *earlier, now = of_one
        same = [one for one in earlier if _says_same(one, now)]
        others = [_as_replaced(one, now) for one in earlier if not _says_same(one, now)]
        if now.until is not None and not history:
            continue
        merged = replace(
            now,
            since=min(one.since for one in (*same, now)),
            stated=sum(one.stated for one in (*same, now)),
            history=tuple(reversed(others)) if history else (),
        )
        found.append(merged)
    return found


def _identity_of(one: PersonFact) -> Identity:
    return one.identity


def _sort_key(one: PersonFact) -> tuple[Identity, bool, datetime, datetime, UUID]:
    """Return what puts statements in line: what holds still behind what was replaced, the newest last."""
    return one.identity, one.until is None, one.since, one.said_at, one.unit_id


def _says_same(one: PersonFact, now: PersonFact) -> bool:
    return one.until is None and now.until is None and one.value.casefold() == now.value.casefold()


def _as_replaced(one: PersonFact, by: PersonFact) -> PersonFact:
    """Return a value of another bank as one that was replaced; what was replaced in its own stays as it is."""
    return one if one.until is not None else replace(one, until=by.since, superseded_by=by.unit_id)


def _is_of(one: SaidFact, subjects: Sequence[str] | None) -> bool:
    """Say whether a fact that was just said is one of these subjects', and no passing one."""
    return one.identity.fact_id not in PASSING and (subjects is None or one.identity.subject in subjects)


def _read_names(rows: Sequence[Row[Any]], said: Sequence[SaidFact], facts: Sequence[PersonFact]) -> dict[str, str]:
    """Return what a person is called: the names that facts were stated under, and the one they say is theirs."""
    kept = {one.unit_id for one in facts}
    fresh = [one for one in said if one.unit_id in kept]
    names = {row.subject: row.name for row in rows if row.name}
    names |= {one.identity.subject: one.fact.subject for one in fresh if one.fact.subject}
    names |= {row.value: row.shown_value for row in rows if row.fact_id == OWN_NAME and row.unit_id in kept}
    return names | {one.value: one.fact.value for one in fresh if one.identity.fact_id == OWN_NAME}


async def _read_subjects(
    connection: AsyncConnection, place: Mapping[str, Any], name: str, said: Sequence[SaidFact]
) -> list[str]:
    known: set[str] = set()
    for one in (name, *sorted(await find_called(connection, SEEN, place, name))):
        arguments = {**place, "name": one, "personal": sorted(PERSONAL), "own_name": OWN_NAME}
        known.update((await connection.execute(SUBJECTS, arguments)).scalars())
    told = {one.identity.subject for one in said if one.identity.fact_id == OWN_NAME and one.value in known}
    return sorted(known | told)


async def _read_fact_rows(
    connection: AsyncConnection, place: Mapping[str, Any], whom: Whom, subjects: Sequence[str] | None
) -> Sequence[Row[Any]]:
    arguments = {**place, "subjects": subjects, "passing": sorted(PASSING)}
    if whom.user is None:
        return (await connection.execute(OF_NAME, arguments)).all()
    return (await connection.execute(OF_USER, {**arguments, "user": user_id(place["host"], whom.user)})).all()


async def _read_neighbours(
    connection: AsyncConnection, place: Mapping[str, Any], subjects: Sequence[str]
) -> tuple[Beside, ...]:
    if not subjects:
        return ()
    stems = sorted({subject.partition(" ")[0] for subject in subjects})
    arguments = {**place, "subjects": subjects, "stems": stems, "personal": sorted(PERSONAL), "limit": BESIDE}
    return tuple(Beside(*row) for row in await connection.execute(AROUND, arguments))


def _build_known(row: Row[Any]) -> PersonFact:
    return PersonFact(
        bank=row.bank_name,
        identity=Identity(row.fact_id, row.subject, row.key),
        key=row.shown_key,
        value=row.shown_value,
        text=row.content,
        unit_id=row.unit_id,
        session_id=row.session_name,
        turn_id=row.turn_name,
        said_at=row.event_date,
        since=row.since,
        until=row.valid_to,
        superseded_by=row.superseded_by,
        stated=row.stated,
        confidence=parse_confidence(row.confidence),
        sources=tuple(row.source_memory_ids),
    )


def _build_said(one: SaidFact) -> PersonFact:
    return PersonFact(
        bank=one.bank_name,
        identity=one.identity,
        key=one.fact.key,
        value=one.fact.value,
        text=one.fact.statement,
        unit_id=one.unit_id,
        session_id=one.session_name,
        turn_id=one.turn_name,
        said_at=one.said_at,
        since=one.said_at,
        until=None,
        superseded_by=None,
        stated=1,
        confidence=one.fact.confidence,
        sources=(one.source,),
    )


def parse_confidence(text: str | None) -> float | None:
    """Return a confidence as events write it; what is no number is none."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
