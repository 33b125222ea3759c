"""Runs the dense arm: vector search over stored vectors and over those of the fresh tail.

Up to `recall.exact_units` all vectors of a bank are compared. Of a larger bank some lists of its IVFFlat index are
probed; if they or a filter leave too few units, all vectors are compared after all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import SelectBase
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import NO_SETTINGS, ONE_PLAN, Settings
from store.driver_rows import DriverRow, fetch_rows
from store.recall.dense import compute_context_cosines, compute_context_weights
from store.recall.dense_queries import (
    FILTERED,
    OF_SESSION,
    PLAIN,
    TOLD_AGENT,
    search_lists,
)
from store.recall.filters import is_filtered
from store.recall.pool import AGENTS, CandidatePool
from store.recall.question import find_named_speakers
from store.recall.rules import SPEAKER
from store.recall.state import ArmResult, RecallState
from store.recall.stored_vectors import IndexedVectors

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
        "host": state.host,
        "bank": state.bank,
        "generation": state.generation,
        "vector": vector,
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
