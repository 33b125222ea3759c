"""Finds reflections by their vectors and adds them to the pool.

A reflection is in no session and its words are in no index: the arm of words reads them from its text. Its speaker is
the subject of its facts; its kind is that of observations. The event in the log that gave it its text names its source
facts. It is added to the pool if all of these facts exist, were not corrected, and pass the question's filters. A list
names those that do, if they are two or more.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import numpy as np
from sqlalchemy import (
    ARRAY,
    ColumnElement,
    FromClause,
    Select,
    Text,
    Uuid,
    and_,
    bindparam,
    case,
    cast,
    column,
    distinct,
    func,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived.insights import LISTED, Member, choose_members, derive_list
from store.derived.reflections import list_id
from store.driver_rows import DriverRow, fetch_rows
from store.log.catalog import EventType
from store.memory.reflections import KIND, states_value
from store.recall.dense import Products
from store.recall.filters import asks_for_kind, conditions_of_any_kind, happened_at, known_by_then
from store.recall.pool import Candidate, CandidatePool
from store.recall.question import ROLES, find_named_speakers
from store.recall.state import RecallState
from store.recall.stored_vectors import measure_distance, select_vector
from store.schema import EVENT_STORE, REFLECTION, UNIT, in_bank
from store.sql_constants import ONE, ZERO, inline
from store.text.rules.fact_rules import LIST_PHRASES

#: The name in `RecallQuery.without` that leaves reflections out.
REFLECTIONS = "reflections"
#: Most reflections that are found in addition to the units if a filter applies; they displace no unit.
NEAREST = 8

IS_ASKED_FOR = asks_for_kind(inline(KIND))


def _select_told() -> Select[*tuple[Any, ...]]:
    """Select those of `reflections` whose facts pass, each with the turns, user and time of these, and its cosine."""
    reflection = REFLECTION.alias("r")
    wanted = (
        func.unnest(bindparam("reflections", type_=ARRAY(Uuid)))
        .table_valued(column("reflection_id", Uuid))
        .render_derived("w")
    )
    living = (
        select(reflection.c.reflection_id, reflection.c.content)
        .where(
            in_bank(reflection),
            reflection.c.reflection_id == wanted.c.reflection_id,
            reflection.c.active,
            reflection.c.content != inline(""),
            IS_ASKED_FOR,
            known_by_then(reflection),
        )
        .limit(ONE)
        .lateral("r")
    )
    event, vector = _find_event(wanted), select_vector(wanted.c.reflection_id).lateral("v")
    facts = _gather_facts(event)
    return (
        select(living, facts, (-measure_distance(vector.c.embedding)).label("near"))
        .join_from(wanted, living, true())
        .join(event, true())
        .join(facts, true())
        .join(vector, true())
    )


def _find_event(wanted: FromClause) -> FromClause:
    """Return the ids of a reflection's source facts, from the event that gave it its text."""
    event = EVENT_STORE.alias("e")
    kinds = (EventType.REFLECTION_CREATED, EventType.REFLECTION_UPDATED)
    return (
        select(event.c.data[inline("sourceMemoryIds")].label("ids"))
        .where(
            in_bank(event),
            event.c.aggregate_key == cast(wanted.c.reflection_id, Text),
            event.c.event_type.in_([inline(kind) for kind in kinds]),
        )
        .order_by(event.c.aggregate_version.desc())
        .limit(ONE)
        .lateral("e")
    )


def _gather_facts(event: FromClause) -> FromClause:
    """Return session, turns, subject, time and user of the source facts that pass the filters, if they say anything.

    The session is that of the fact that was said last. `is_whole`: all of them pass. Others than a list need that, and
    a list has no more than LISTED facts.
    """
    ids = func.jsonb_array_elements_text(event.c.ids)
    source = ids.table_valued(column("id", Text), with_ordinality="nth").render_derived("f")
    fact = _find_fact(source)
    last_first = (fact.c.at.desc(), fact.c.position.desc())
    is_whole = func.count() == func.jsonb_array_length(event.c.ids)
    return (
        select(
            func.array_agg(aggregate_order_by(fact.c.session_name, *last_first))[ONE].label("session_name"),
            func.array_agg(aggregate_order_by(fact.c.turn_name, *last_first)).label("turns"),
            func.array_agg(aggregate_order_by(fact.c.subject, *last_first))[ONE].label("name"),
            func.max(fact.c.at).label("occurred_at"),
            case((func.count(distinct(fact.c.user_id)) == ONE, func.array_agg(fact.c.user_id)[ONE])).label("user_id"),
            is_whole.label("is_whole"),
            *_gather_members(source, fact, is_whole),
        )
        .join_from(source, fact, true())
        .having(and_(func.count() > ZERO, or_(is_whole, func.count() <= inline(LISTED))))
        .lateral("s")
    )


def _find_fact(source: FromClause) -> FromClause:
    """Return the source fact if it passes the filters."""
    unit = UNIT.alias("u")
    metadata = unit.c["metadata"]
    subject = func.nullif(metadata[inline("subject")].astext, inline(""))
    return (
        select(
            *(unit.c[name] for name in ("session_name", "turn_name", "position", "user_id", "content")),
            *(metadata[inline(name)].astext.label(name) for name in ("fact_id", "key", "value")),
            subject.label("subject"),
            func.coalesce(subject, cast(unit.c.user_id, Text)).label("list_of"),
            happened_at(unit).label("at"),
        )
        .where(
            in_bank(unit),
            unit.c.unit_id == cast(source.c.id, Uuid),
            states_value(unit),
            conditions_of_any_kind(unit),
        )
        .limit(ONE)
        .lateral("u")
    )


def _gather_members(source: FromClause, fact: FromClause, is_whole: ColumnElement[bool]) -> list[ColumnElement[Any]]:
    """Return kind, subject and, the newest first, texts of the facts of a list that is not whole; else nulls."""
    lists = {
        f"member_{name}s": func.array_agg(aggregate_order_by(fact.c[name], source.c.nth.desc()))
        for name in ("key", "value", "content")
    }
    found = {
        "fact_id": func.max(fact.c.fact_id),
        "list_of": func.afterturn.folded(func.max(fact.c.list_of)),
        **lists,
    }
    return [case((~is_whole, value)).label(name) for name, value in found.items()]


TOLD = _select_told()


async def add_reflections(
    connection: AsyncConnection, state: RecallState, pool: CandidatePool, found: Sequence[UUID]
) -> CandidatePool:
    """Return the pool with those of the ids `found` that are reflections with facts that pass; no query without any."""
    units = {candidate.unit_id for candidate in pool.candidates}
    others = [one for one in found if one not in units]
    if not others or state.vector is None or REFLECTIONS in state.query.without:
        return pool
    arguments = {**state.vector_place, "reflections": others, **state.filters}
    speakers = find_named_speakers(state.question, state.speakers)
    named = {one.casefold() for one in speakers if one.lower() not in ROLES}
    found_rows = await fetch_rows(connection, TOLD, arguments)
    # A question that names one speaker gets no reflection about another.
    rows = [row for row in found_rows if len(named) != 1 or row.name is None or row.name.casefold() in named]
    told = [(row, said) for row in rows if (said := _tell_passing(state.bank, row)) is not None]
    if not told:
        return pool
    near = np.array([[row.near, 0, 0] for row, _ in told], dtype=np.float64)
    alone = Products(near, np.zeros_like(near), np.array([[True, False, False]] * len(told)))
    candidates = [_build_candidate(row, said) for row, said in told]
    return CandidatePool([*pool.candidates, *candidates], pool.products.and_those_of(alone))


def _tell_passing(bank: UUID, row: DriverRow) -> str | None:
    """Return what a reflection says by its facts that pass: a list of these, anything else only by all of its facts."""
    if row.is_whole:
        content: str = row.content
        return content
    if row.fact_id not in LIST_PHRASES or row.reflection_id != list_id(bank, row.fact_id, row.list_of):
        return None
    newest_first = map(Member, row.member_keys, row.member_values, row.member_contents)
    return derive_list(row.fact_id, choose_members(row.fact_id, newest_first))


def _build_candidate(row: DriverRow, said: str) -> Candidate:
    turns = tuple(dict.fromkeys(turn for turn in row.turns if turn is not None))
    return Candidate(
        unit_id=row.reflection_id,
        kind=KIND,
        text=said,
        whole=True,
        session_id=None,
        session_name=row.session_name,
        turn_name=turns[0] if turns else None,
        seq=None,
        role=None,
        name=row.name,
        occurred_at=row.occurred_at,
        sources=(),
        user_id=row.user_id,
        turns=turns,
    )
