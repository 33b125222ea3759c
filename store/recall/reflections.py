"""Finds reflections by their vectors and adds them to the pool.

A reflection stands in no session and its words in no index; it is of the kind of observations. What it was drawn from
is written in the log, in the event that made it say what it says. It is told when each of those facts may be told: all
of them are there, and the question's filters hold for each.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import numpy as np
from sqlalchemy import (
    ARRAY,
    FromClause,
    Integer,
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
    literal_column,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncConnection

from store.driver_rows import DriverRow, fetch_rows
from store.log.catalog import EventType
from store.memory.reflections import KIND
from store.recall.dense import Products
from store.recall.filters import conditions_of_any_kind, happened_at, known_by_then, of_kind
from store.recall.pool import Candidate, CandidatePool
from store.recall.state import RecallState
from store.recall.stored_vectors import measure_distance, select_vector
from store.schema import EVENT_STORE, REFLECTION, UNIT, in_bank

#: The nearest reflections that are found beside the units where a filter applies; they displace no unit.
NEAREST = 8

IS_ASKED_FOR = of_kind(literal_column(f"'{KIND}'", Text))
_ZERO, _ONE = literal_column("0", Integer), literal_column("1", Integer)


def _select_told() -> Select[*tuple[Any, ...]]:
    """Select the `reflections` that may be told, each with what its facts say of it and how near it is."""
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
            reflection.c.content != literal_column("''"),
            IS_ASKED_FOR,
            known_by_then(reflection),
        )
        .limit(_ONE)
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
    """Return the ids of the facts that a reflection was drawn from, of the event that made it say what it says."""
    event = EVENT_STORE.alias("e")
    kinds = (EventType.REFLECTION_CREATED, EventType.REFLECTION_UPDATED)
    return (
        select(event.c.data[literal_column("'sourceMemoryIds'")].label("ids"))
        .where(
            in_bank(event),
            event.c.aggregate_key == cast(wanted.c.reflection_id, Text),
            event.c.event_type.in_([literal_column(f"'{kind}'") for kind in kinds]),
        )
        .order_by(event.c.aggregate_version.desc())
        .limit(_ONE)
        .lateral("e")
    )


def _gather_facts(event: FromClause) -> FromClause:
    """Return what the facts say together, if each of them may be told.

    Of facts that were said in several turns, the last is the one that is named.
    """
    unit = UNIT.alias("u")
    source = func.jsonb_array_elements_text(event.c.ids).table_valued(column("id", Text)).render_derived("f")
    fact = (
        select(
            *(unit.c[name] for name in ("unit_id", "session_name", "turn_name", "position", "user_id")),
            happened_at(unit).label("at"),
        )
        .where(in_bank(unit), unit.c.unit_id == cast(source.c.id, Uuid), conditions_of_any_kind(unit))
        .limit(_ONE)
        .lateral("u")
    )
    last_first = (fact.c.at.desc(), fact.c.position.desc())
    return (
        select(
            func.array_agg(aggregate_order_by(fact.c.session_name, *last_first))[_ONE].label("session_name"),
            func.array_agg(aggregate_order_by(fact.c.turn_name, *last_first)).label("turns"),
            func.max(fact.c.at).label("occurred_at"),
            case((func.count(distinct(fact.c.user_id)) == _ONE, func.array_agg(fact.c.user_id)[_ONE])).label("user_id"),
        )
        .join_from(source, fact, true(), isouter=True)
        .having(and_(func.count() > _ZERO, func.count() == func.count(fact.c.unit_id)))
        .lateral("s")
    )


TOLD = _select_told()


async def with_reflections(
    connection: AsyncConnection, state: RecallState, pool: CandidatePool, found: Sequence[UUID]
) -> CandidatePool:
    """Add to a pool what was `found` and is a reflection that may be told; nothing is asked where there is none."""
    units = {candidate.unit_id for candidate in pool.candidates}
    others = [one for one in found if one not in units]
    if not others or state.vector is None:
        return pool
    arguments = {
        "host": state.host,
        "bank": state.bank,
        "generation": state.generation,
        "vector": state.vector,
        "reflections": others,
        **state.filters,
    }
    rows = await fetch_rows(connection, TOLD, arguments)
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
        name=None,
        occurred_at=row.occurred_at,
        sources=(),
        user_id=row.user_id,
        turns=turns,
    )
