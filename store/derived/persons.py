"""Reads a person's profile: facts in time order and co-occurring entities.

Read from projections alone, without a model. Each fact names its sources.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

from afterturn_client.contract.facts import CooccurringEntity, EndedFacts, Fact, FactState
from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.derived.called_names import find_called
from store.derived.entity_profiles import PERSONAL
from store.derived.fact_states import judge_end
from store.derived.facts import Identity
from store.derived.own_names import OWN_NAME, read_own_subjects
from store.derived.person_queries import AROUND, OF_NAME, OF_USER, SEEN, SEEN_OF_USER, SUBJECTS, count_ended_facts
from store.derived.said_facts import SaidFact, read_said_facts
from store.identity import user_id
from store.tenancy.banks import scope_of
from store.tenancy.spaces import Space
from store.text.rules.facts import PASSING

#: The most co-occurring entities of a profile.
BESIDE = 12


@dataclass(frozen=True, slots=True)
class PersonKey:
    """A person: a user of the host, a name in a bank, or a user under one of several names."""

    user: str | None = None
    name: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Statement:
    """A fact as one bank states it, with its identity; `denied`: it denies the fact."""

    identity: Identity = field(repr=False)
    fact: Fact
    denied: bool = False


@dataclass(frozen=True, slots=True)
class Person:
    """A page of a person's profile; `names` are those that its facts were stated under.

    `last` is the identity that the page ends with; None where no fact follows it. `ended`: with `history`, how many
    facts no answer shows any more, and why.
    """

    names: tuple[str, ...] = field(repr=False)
    facts: tuple[Fact, ...]
    beside: tuple[CooccurringEntity, ...]
    last: Identity | None
    ended: tuple[EndedFacts, ...] = ()


class Persons:
    """Reads the profiles of people."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    async def of(
        self,
        host: UUID,
        space: Space,
        key: PersonKey,
        *,
        banks: Sequence[str] | None,
        history: bool,
        limit: int,
        after: Identity | None = None,
    ) -> Person:
        """Return a person's profile from the banks of these whole names (None: all that a caller of `space` may see).

        At most `limit` facts, in the order of their identities, those behind `after`; with `history` also superseded
        ones, each under the fact that superseded it.
        """
        place = {"host": host, "banks": None if banks is None else list(banks), "now": self._clock()}
        async with self._database.scoped(host, *scope_of(host, space)) as connection:
            user = None if key.user is None else user_id(host, key.user)
            seen = SEEN if user is None else SEEN_OF_USER
            said = await read_said_facts(connection, seen, place, self._database.retention, user=user)
            subjects = await _read_subjects(connection, place, key, said)
            wanted = {**place, "history": history, "limit": limit + 1, **_name_place(after)}
            rows = await _read_fact_rows(connection, wanted, key, subjects)
            stored = {row.unit_id for row in rows}
            waiting = (_build_said(one) for one in said if _is_of(one, subjects) and one.unit_id not in stored)
            fresh = [one for one in waiting if after is None or one.identity > after]
            page = _choose_page([*(_build_known(row) for row in rows), *fresh], limit)
            facts = order_statements(page.statements, history=history)
            names = _read_names(rows, said, facts)
            beside = await _read_neighbours(connection, place, sorted({*subjects, *names}))
            ended = await count_ended_facts(connection, place, subjects, user) if history else ()
        return Person(tuple(sorted(set(names.values()))), tuple(facts), beside, page.last, ended)


class _FactPage(NamedTuple):
    """The statements of a page, and the identity that it ends with; None where no fact follows."""

    statements: Sequence[Statement]
    last: Identity | None


def _choose_page(statements: Sequence[Statement], limit: int) -> _FactPage:
    """Return the statements of the first `limit` identities."""
    identities = sorted({one.identity for one in statements})
    if len(identities) <= limit:
        return _FactPage(statements, None)
    kept = {*identities[:limit]}
    return _FactPage([one for one in statements if one.identity in kept], identities[limit - 1])


def _name_place(after: Identity | None) -> dict[str, str | None]:
    """Return the parameters of the place behind which a page begins; null: at the beginning."""
    names = ("fact_id", "subject", "key")
    return {f"after_{name}": None if after is None else getattr(after, name) for name in names}


def order_statements(statements: Iterable[Statement], *, history: bool) -> list[Fact]:
    """Return the valid facts, each with its history; of two banks with different values, the newer one is valid.

    A denial that no worker has written yet ends the valid fact before it that has its value.
    """
    found = list[tuple[Identity, Fact]]()
    for _, of_one in groupby(sorted(statements, key=_sort_key), key=_identity_of):
        standing = _end_denied([*of_one])
        if not standing:
            continue
        *earlier, now = standing
        same = [one for one in earlier if _says_same(one, now)]
        others = [_as_replaced(one, now) for one in earlier if not _says_same(one, now)]
        if now.fact.until is not None and not history:
            continue
        merged = replace(
            now.fact,
            since=min(one.fact.since for one in (*same, now)),
            stated=sum(one.fact.stated for one in (*same, now)),
            history=tuple(one.fact for one in reversed(others)) if history else (),
        )
        found.append((now.identity, merged))
    return [fact for _, fact in sorted(found, key=itemgetter(0))]


def _end_denied(of_one: Sequence[Statement]) -> list[Statement]:
    """Return the facts of one identity, in their order, without denials, those that one of these ends as ended."""
    standing: list[Statement] = []
    for one in of_one:
        if one.denied:
            last = max((other for other in standing if other.fact.until is None), key=_sort_key, default=None)
            if last is not None and _has_its_value(last, one):
                standing = [_as_replaced(other, one) for other in standing]
        else:
            standing.append(one)
    return sorted(standing, key=_sort_key)


def _identity_of(one: Statement) -> Identity:
    return one.identity.line


def _sort_key(one: Statement) -> tuple[Identity, bool, datetime, datetime, UUID]:
    """Return the sort key of statements: by identity, superseded ones before valid ones, the newest last."""
    fact = one.fact
    return one.identity.line, fact.until is None, fact.since, fact.said_at, fact.unit_id


def _says_same(one: Statement, now: Statement) -> bool:
    return one.fact.until is None and now.fact.until is None and _has_its_value(one, now)


def _has_its_value(one: Statement, other: Statement) -> bool:
    """Return whether two facts say the same, not one and its opposite."""
    return one.identity == other.identity and one.fact.value.casefold() == other.fact.value.casefold()


def _as_replaced(one: Statement, by: Statement) -> Statement:
    """Return a fact as superseded by `by`; one that was superseded in its own bank stays as it is."""
    if one.fact.until is not None:
        return one
    state = judge_end(is_denied=by.denied, is_opposite=by.identity != one.identity)
    return replace(one, fact=replace(one.fact, until=by.fact.since, superseded_by=by.fact.unit_id, state=state))


def _is_of(one: SaidFact, subjects: Sequence[str]) -> bool:
    """Return whether a fact of a waiting turn is about one of these subjects and lasting."""
    return one.identity.fact_id not in PASSING and one.identity.subject in subjects


def _read_names(rows: Sequence[Row[Any]], said: Sequence[SaidFact], facts: Sequence[Fact]) -> dict[str, str]:
    """Return a person's names by folded form: those that facts were stated under, and those stated as their own."""
    kept = {one.unit_id for one in facts}
    fresh = [one for one in said if one.unit_id in kept]
    names = {row.subject: row.name for row in rows if row.name}
    names |= {one.identity.subject: one.fact.subject for one in fresh if one.fact.subject}
    names |= {row.value: row.shown_value for row in rows if row.fact_id == OWN_NAME and row.unit_id in kept}
    return names | {one.value: one.fact.value for one in fresh if one.identity.fact_id == OWN_NAME}


async def _read_subjects(
    connection: AsyncConnection, place: Mapping[str, Any], key: PersonKey, said: Sequence[SaidFact]
) -> list[str]:
    """Return the folded subjects of a person's facts: those that the name means, else the user's own."""
    if key.name is None:
        return sorted(
            await read_own_subjects(
                connection, SEEN_OF_USER, {**place, "user": user_id(place["host"], key.user)}, key.user, said
            )
        )
    return await _read_subjects_of_name(connection, place, key.name, said)


async def _read_subjects_of_name(
    connection: AsyncConnection, place: Mapping[str, Any], name: str, said: Sequence[SaidFact]
) -> list[str]:
    known: set[str] = set()
    for one in (name, *sorted(await find_called(connection, SEEN, place, name))):
        arguments = {**place, "name": one, "personal": sorted(PERSONAL), "own_name": OWN_NAME}
        known.update((await connection.execute(SUBJECTS, arguments)).scalars())
    told = {one.identity.subject for one in said if one.identity.fact_id == OWN_NAME and one.value in known}
    return sorted(known | told)


async def _read_fact_rows(
    connection: AsyncConnection, place: Mapping[str, Any], key: PersonKey, subjects: Sequence[str]
) -> Sequence[Row[Any]]:
    arguments = {**place, "subjects": subjects, "passing": sorted(PASSING)}
    if key.user is None:
        return (await connection.execute(OF_NAME, arguments)).all()
    return (await connection.execute(OF_USER, {**arguments, "user": user_id(place["host"], key.user)})).all()


async def _read_neighbours(
    connection: AsyncConnection, place: Mapping[str, Any], subjects: Sequence[str]
) -> tuple[CooccurringEntity, ...]:
    if not subjects:
        return ()
    stems = sorted({subject.partition(" ")[0] for subject in subjects})
    arguments = {**place, "subjects": subjects, "stems": stems, "personal": sorted(PERSONAL), "limit": BESIDE}
    rows = await connection.execute(AROUND, arguments)
    return tuple(CooccurringEntity(name=name, kind=kind, units=units) for name, kind, units in rows)


def _build_known(row: Row[Any]) -> Statement:
    fact = Fact(
        fact_id=row.fact_id,
        key=row.shown_key,
        value=row.shown_value,
        text=row.content,
        since=row.since,
        until=row.valid_to,
        superseded_by=row.superseded_by,
        state=FactState(row.state or FactState.SUPERSEDED),
        deletion_proposed_by=tuple(row.deletion_proposed_by),
        stated=row.stated,
        confidence=parse_confidence(row.confidence),
        bank=row.bank_name,
        unit_id=row.unit_id,
        session_id=row.session_name,
        turn_id=row.turn_name,
        said_at=row.event_date,
        sources=tuple(row.source_memory_ids),
    )
    return Statement(Identity(row.fact_id, row.subject, row.key), fact)


def _build_said(one: SaidFact) -> Statement:
    fact = Fact(
        fact_id=one.identity.fact_id,
        key=one.fact.key,
        value=one.fact.value,
        text=one.fact.statement,
        since=one.said_at,
        until=None,
        superseded_by=None,
        state=FactState.ACTIVE,
        stated=1,
        confidence=one.fact.confidence,
        bank=one.bank_name,
        unit_id=one.unit_id,
        session_id=one.session_name,
        turn_id=one.turn_name,
        said_at=one.said_at,
        sources=(one.source,),
    )
    return Statement(one.identity, fact, one.fact.denied)


def parse_confidence(text: str | None) -> float | None:
    """Return the number of a confidence as events write it; None for what is not a number."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
