"""Finds reflections by their vectors and adds them to the pool.

A reflection is in no session and its words are in no index: the arm of words reads them from its text. Its speaker is
the subject of its facts; its kind is that of observations. The event in the log that gave it its text names its source
facts. It is added to the pool if all of these facts exist, were not corrected, and pass the question's filters.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import numpy as np
from sqlalchemy import (
    ARRAY,
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
    select,
    true,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncConnection

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

#: The name in `RecallQuery.without` that leaves reflections out.
REFLECTIONS = "reflections"
#: Most reflections that are found in addition to the units if a filter applies; they displace no unit.
NEAREST = 8

IS_ASKED_FOR = asks_for_kind(inline(KIND))


def _select_told() -> Select[*tuple[Any, ...]]:
    """Select those of `reflections` whose source facts all pass, each with its turns, user, time and cosine."""
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
    """Return session, turns, subject, time and user of the source facts, if all of them pass the filters.

    The session is that of the fact that was said last.
    """
    unit = UNIT.alias("u")
    source = func.jsonb_array_elements_text(event.c.ids).table_valued(column("id", Text)).render_derived("f")
    fact = (
        select(
            *(unit.c[name] for name in ("unit_id", "session_name", "turn_name", "position", "user_id")),
            func.nullif(unit.c["metadata"][inline("subject")].astext, inline("")).label("subject"),
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
    last_first = (fact.c.at.desc(), fact.c.position.desc())
    return (
        select(
            func.array_agg(aggregate_order_by(fact.c.session_name, *last_first))[ONE].label("session_name"),
            func.array_agg(aggregate_order_by(fact.c.turn_name, *last_first)).label("turns"),
            func.array_agg(aggregate_order_by(fact.c.subject, *last_first))[ONE].label("name"),
            func.max(fact.c.at).label("occurred_at"),
            case((func.count(distinct(fact.c.user_id)) == ONE, func.array_agg(fact.c.user_id)[ONE])).label("user_id"),
        )
        .join_from(source, fact, true(), isouter=True)
        .having(and_(func.count() > ZERO, func.count() == func.count(fact.c.unit_id)))
        .lateral("s")
    )


TOLD = _select_told()


async def add_reflections(
    connection: AsyncConnection, state: RecallState, pool: CandidatePool, found: Sequence[UUID]
) -> CandidatePool:
    """Return the pool with those of the ids `found` that are reflections whose facts pass; no query without any."""
    units = {candidate.unit_id for candidate in pool.candidates}
    others = [one for one in found if one not in units]
    if not others or state.vector is None or REFLECTIONS in state.query.without:
        return pool
    arguments = {
        "host": state.host,
        "bank": state.bank,
        "generation": state.generation,
        "vector": state.vector,
        "reflections": others,
        **state.filters,
    }
    speakers = find_named_speakers(state.question, state.speakers)
    named = {one.casefold() for one in speakers if one.lower() not in ROLES}
    found_rows = await fetch_rows(connection, TOLD, arguments)
    # A question that names one speaker gets no reflection about another.
    rows = [row for row in found_rows if len(named) != 1 or row.name is None or row.name.casefold() in named]
    if not rows:
        return pool
    near = np.array([[row.near, 0, 0] for row in rows], dtype=np.float64)
    alone = Products(near, np.zeros_like(near), np.array([[True, False, False]] * len(rows)))
    return CandidatePool([*pool.candidates, *map(_build_candidate, rows)], pool.products.and_those_of(alone))


def _build_candidate(row: DriverRow) -> Candidate:
    turns = tuple(dict.fromkeys(turn for turn in row.turns if turn is not None))
    return Candidate(
        unit_id=row.reflection_id,
        kind=KIND,
        text=row.content,
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
