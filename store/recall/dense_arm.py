"""Runs the dense arm: vector search over stored vectors and over those of the fresh tail.

Up to `recall.exact_units` all vectors of a bank are compared. Of a larger bank some lists of its IVFFlat index are
probed; if they or a filter leave too few units, all vectors are compared after all.

The rows of its queries have `unit_id`, `cosine`, and `drawn`: whether the row is known to be a reflection; PLAIN and
OF_SESSION do not tell. The queries of an index (`search_lists`) name their generation as a constant, as its predicate
does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    ARRAY,
    ColumnElement,
    CompoundSelect,
    Double,
    FromClause,
    Integer,
    Select,
    SelectBase,
    Text,
    Uuid,
    and_,
    any_,
    bindparam,
    case,
    false,
    func,
    or_,
    select,
    true,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import NO_SETTINGS, ONE_PLAN, Settings
from store.driver_rows import DriverRow, fetch_rows
from store.recall.candidates import ends_in_question
from store.recall.dense import compute_context_cosines, compute_context_weights
from store.recall.filters import filter_conditions, is_filtered
from store.recall.pool import AGENTS, CandidatePool
from store.recall.question import find_named_speakers
from store.recall.reflections import IS_ASKED_FOR
from store.recall.reflections import NEAREST as MOST_REFLECTIONS
from store.recall.rules import SPEAKER
from store.recall.state import ArmResult, RecallState
from store.recall.stored_vectors import IN_GENERATION, VECTOR, IndexedVectors, measure_distance
from store.schema import REFLECTION, UNIT, in_bank, same_bank
from store.sql_constants import ONE, ZERO, inline

_CANDIDATES, _LOOKED_AT = bindparam("candidates", type_=Integer), bindparam("looked_at", type_=Integer)
_UNIT = UNIT.alias("u")
_PASSES = filter_conditions(_UNIT)
_DISTANCE = measure_distance(VECTOR.c.embedding)
_COSINE, _DRAWN, _NOT_DRAWN = (-_DISTANCE).label("cosine"), true().label("drawn"), false().label("drawn")


def _with_unit(vectors: FromClause) -> FromClause:
    return vectors.join(_UNIT, same_bank(vectors, _UNIT, "unit_id"))


def _find_vector(unit_id: ColumnElement[Any]) -> FromClause:
    """Return the cosine of each vector of a unit or a reflection, by one probe of an index."""
    return select(VECTOR.c.unit_id, _COSINE).where(IN_GENERATION, VECTOR.c.unit_id == unit_id).offset(ZERO).lateral("v")


def _select_nearest(*, filtered: bool = False) -> Select[*tuple[Any, ...]]:
    """Select all vectors, the nearest first; `filtered`: those of units that pass the filters.

    Each distance is measured once, in a query of its own, whose order no index serves.
    """
    measured = select(VECTOR.c.unit_id, _DISTANCE.label("distance")).where(IN_GENERATION)
    if filtered:
        measured = measured.select_from(_with_unit(VECTOR)).where(_PASSES)
    near = measured.offset(ZERO).subquery("v")
    found = select(near.c.unit_id, (-near.c.distance).label("cosine"), _NOT_DRAWN)
    return found.order_by(near.c.distance, near.c.unit_id)


_NEAREST = _select_nearest()
PLAIN = _NEAREST.limit(_CANDIDATES)


# With a filter -------------------------------------------------------------------------------------------------------


def _select_reflections() -> Select[*tuple[Any, ...]]:
    """Select the nearest reflections.

    Reflections are no units, so no filter applies here: their source facts are filtered when the pool is loaded.
    """
    reflection = REFLECTION.alias("r")
    near = _find_vector(reflection.c.reflection_id)
    return (
        select(near.c.unit_id, near.c.cosine, _DRAWN)
        .join_from(reflection, near, true())
        .where(in_bank(reflection), reflection.c.active, IS_ASKED_FOR)
        .order_by(near.c.cosine.desc(), near.c.unit_id)
        .limit(inline(MOST_REFLECTIONS))
    )


_REFLECTIONS = _select_reflections()
FILTERED = union_all(_select_nearest(filtered=True).limit(_CANDIDATES), _REFLECTIONS)


def _select_of_session() -> Select[*tuple[Any, ...]]:
    """Select the nearest units of one session.

    They are few, and have an index for messages and another for other units.
    """
    of_session = and_(in_bank(_UNIT), _UNIT.c.session_id == bindparam("only_session", type_=Uuid))
    here = union_all(
        select(_UNIT.c.unit_id).where(of_session, _UNIT.c.seq.is_not(None), _PASSES),
        select(_UNIT.c.unit_id).where(of_session, _UNIT.c.seq.is_(None), _PASSES),
    )
    unit = here.cte("here").prefix_with("materialized")
    near = _find_vector(unit.c.unit_id)
    return (
        select(near.c.unit_id, near.c.cosine, _NOT_DRAWN)
        .join_from(unit, near, true())
        .order_by(near.c.cosine.desc(), near.c.unit_id)
        .limit(_CANDIDATES)
    )


OF_SESSION = _select_of_session()


# In an agent's memory ------------------------------------------------------------------------------------------------


def _only_asks() -> ColumnElement[bool]:
    """Return the condition that a unit is a short line of an agent, or a short question of a user without a name."""
    size = func.octet_length(_UNIT.c.content)
    return or_(
        and_(
            _UNIT.c.role == any_(bindparam("agents", type_=ARRAY(Text))),
            size <= bindparam("line_bytes", type_=Integer),
        ),
        and_(
            _UNIT.c.role == inline("user"),
            _UNIT.c.name.is_(None),
            size <= bindparam("question_bytes", type_=Integer),
            ends_in_question(_UNIT.c.content),
        ),
    )


def _beside_agent(nearest: Select[*tuple[Any, ...]]) -> CompoundSelect[*tuple[Any, ...]]:
    """Return the query of the nearest units in an agent's memory, where statements come before questions.

    Earlier questions of the user, and short lines of the agent that repeat them, are often nearer to a question than
    its answer is: they fill the places that statements leave. Units of the one speaker whom the question names get the
    bonus of the ranking rule here already: of the sentences that list a person's deeds few are near the question.
    Reflections, which are no units, come in addition: those of other subjects are left out when the pool is loaded.
    """
    near = nearest.limit(_LOOKED_AT).subquery("n")
    is_named = func.coalesce(_UNIT.c.name, _UNIT.c.role) == bindparam("named", type_=Text)
    unit = (
        select(_only_asks().label("only_asks"), is_named.label("is_named"), false().label("drawn"))
        .where(in_bank(_UNIT), _UNIT.c.unit_id == near.c.unit_id)
        .limit(ONE)
        .lateral("u")
    )
    more = case((unit.c.is_named, bindparam("named_more", type_=Double)), else_=ZERO)
    placed = (
        select(near.c.unit_id, near.c.cosine, unit.c.only_asks, (near.c.cosine + more).label("place"))
        # A vector without a unit is a reflection's.
        .add_columns(func.coalesce(unit.c.drawn, true()).label("drawn"))
        .join_from(near, unit, true(), isouter=True)
        .cte("placed")
        .prefix_with("materialized")
    )
    rows = select(placed.c.unit_id, placed.c.cosine, placed.c.drawn)
    told = rows.where(~placed.c.drawn).order_by(placed.c.only_asks, placed.c.place.desc(), placed.c.unit_id)
    drawn = rows.where(placed.c.drawn).order_by(placed.c.cosine.desc(), placed.c.unit_id)
    return union_all(told.limit(_CANDIDATES), drawn.limit(inline(MOST_REFLECTIONS)))


TOLD_AGENT = _beside_agent(_NEAREST)


# In the lists of an index --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListQueries:
    """The queries of one generation's index: all units, those that pass a filter, an agent's memory."""

    plain: Select[*tuple[Any, ...]]
    filtered: SelectBase
    told_agent: SelectBase


@cache
def search_lists(vectors: IndexedVectors) -> ListQueries:
    """Return the queries that read lists of the index on these vectors."""
    distance = vectors.measure_distance(VECTOR)
    near = (
        select(VECTOR.c.host_id, VECTOR.c.bank_id, VECTOR.c.unit_id, (-distance).label("cosine"))
        .where(in_bank(VECTOR), vectors.contain(VECTOR))
        .order_by(distance)
        .limit(_LOOKED_AT)
        .cte("near")
        .prefix_with("materialized")
    )
    in_lists = select(near.c.unit_id, near.c.cosine, _NOT_DRAWN).order_by(near.c.cosine.desc())
    plain = in_lists.limit(_CANDIDATES)
    # Filters are applied to the nearest: if fewer than one in ten pass, more may lie in lists that were not probed.
    filtered = union_all(plain.select_from(_with_unit(near)).where(_PASSES), _REFLECTIONS)
    return ListQueries(plain, filtered, _beside_agent(in_lists))


#: In an agent's memory: units read for each that is wanted, the number if the question names a speaker, and the most
#: bytes of an agent's short line and of a short question. Of 60 questions for lists, the second number has .800 of the
#: answers complete, instead of .567.
TOLD_AMONG, NAMED_AMONG, LINE_BYTES, QUESTION_BYTES = 2, 4, 200, 80
#: Weight of a neighbouring message's vector, beside 1 for the message's own, and what is added for the question before
#: an answer.
CONTEXT, ANSWER = 0.2, 0.15
#: With a filter: candidates read for each result that is wanted, and the factor on the lists that are probed.
LOOKED_AT, FILTERED_LISTS = 10, 2


def search_settings(lists: int, *, filtered: bool = False) -> Settings:
    """Return the settings of a search's transaction: how many lists of the index are probed (0: no index).

    Without sorts the planner takes the index for any estimate of the bank's size.
    """
    # The index is one bank's, and filters may be null: only a plan for the actual parameters can use that.
    if not lists:
        return NO_SETTINGS if filtered else ONE_PLAN
    return {"enable_sort": "off", "ivfflat.probes": str(lists * (FILTERED_LISTS if filtered else 1))}


class DenseArm:
    """The arm of meaning: the cosine of the question, names replaced, and each message mixed with its neighbours."""

    name = "dense"
    weight = 0.85
    needs_vector = True

    async def find(self, connection: AsyncConnection, state: RecallState) -> ArmResult:
        """Return the nearest stored units; none if the question has no vector. `rank_tail_units` adds fresh texts."""
        if state.vector is None:
            return ArmResult([], [], lambda pool: np.zeros(len(pool)))
        rows = await _find_nearest(connection, state, state.vector)
        state.nearest = {unit: cosine for unit, cosine, is_drawn in rows if not is_drawn}
        drawn = [unit for unit, _, is_drawn in rows if is_drawn]
        is_read = state.is_read

        def score(pool: CandidatePool) -> NDArray[np.float64]:
            if not is_read:  # such vectors are all near to each other
                return np.zeros(len(pool))
            before, after = (pool.unmuted * compute_context_weights(pool.products, pool.sizes)).T
            return compute_context_cosines(pool.products, before * (CONTEXT + ANSWER * pool.answers), after * CONTEXT)

        return ArmResult([*_take_nearest(state.nearest, state), *drawn], [], score)


def rank_tail_units(state: RecallState) -> None:
    """Let the fresh texts that have been embedded take their places among the nearest units that the arm found."""
    found, question = state.found.get(DenseArm.name), state.vector
    if found is not None and question is not None and state.tail_vectors:
        tail = {unit: float(vector @ question) for unit, vector in state.tail_vectors.items()}
        drawn = [unit for unit in found.units if unit not in state.nearest]
        state.found[DenseArm.name] = replace(found, units=[*_take_nearest({**tail, **state.nearest}, state), *drawn])


def _take_nearest(near: Mapping[UUID, float], state: RecallState) -> Sequence[UUID]:
    return sorted(near, key=lambda unit: (-near[unit], unit))[: state.settings.candidates]


async def _find_nearest(
    connection: AsyncConnection, state: RecallState, vector: NDArray[np.float32]
) -> Sequence[DriverRow]:
    wanted = state.settings.candidates
    filtered = is_filtered(state.filters)
    arguments = {
        **state.vector_place,
        "candidates": wanted,
        "agents": list(AGENTS),
        "line_bytes": LINE_BYTES,
        "question_bytes": QUESTION_BYTES,
        **(state.filters if filtered else {}),
    }
    if state.filters["only_session"] is not None:
        return await fetch_rows(connection, OF_SESSION, arguments)
    lists = search_lists(IndexedVectors(state.generation, len(vector)))
    all_units, in_lists, times = cast(SelectBase, PLAIN), cast(SelectBase, lists.plain), 1
    if filtered:
        all_units, in_lists, times = FILTERED, lists.filtered, LOOKED_AT
    elif _is_beside_agent(state):
        all_units, in_lists = TOLD_AGENT, lists.told_agent
        named = _find_named(state)
        times = TOLD_AMONG if named is None else NAMED_AMONG
        arguments |= {"named": named, "named_more": SPEAKER / DenseArm.weight}
    arguments["looked_at"] = wanted * times
    if state.lists:
        rows = await fetch_rows(connection, in_lists, arguments)
        if sum(not row.drawn for row in rows) >= wanted:
            return rows
    return await fetch_rows(connection, all_units, arguments)


def _is_beside_agent(state: RecallState) -> bool:
    """Return whether an agent speaks, or may, in units with the question's words, and is not asked for its own."""
    return not state.question.wants_assistant and (not state.speakers or not AGENTS.isdisjoint(state.speakers))


def _find_named(state: RecallState) -> str | None:
    """Return the one speaker whom the question names, None if it names none or several."""
    named = find_named_speakers(state.question, state.speakers)
    return next(iter(named)) if len(named) == 1 else None
