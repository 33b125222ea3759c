"""Reads the candidates of all arms into a pool: units, vectors and neighbours, in one statement."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.ext.asyncio import AsyncConnection

from store.driver_rows import fetch_rows
from store.recall.candidate_queries import POOL, TEXTS, VECTORS
from store.recall.dense import Products, compute_products
from store.recall.pool import Candidate, CandidatePool
from store.recall.reflections import add_reflections
from store.recall.state import RecallState
from store.recall.unstored_units import add_unstored

#: Characters of each text, from its beginning, that ranking reads; a message may have 256 KiB.
CHARACTERS = 4000

#: Most bytes of whole texts in an answer; later texts stay cut. An answer holds each text twice and has 8 MiB at most.
MOST_BYTES = 4_194_304

#: Columns of a row that are a Candidate's fields, in order; the last field, of reflections alone, has no column.
_FIELDS = len(fields(Candidate)) - 1


async def load_pool(connection: AsyncConnection, state: RecallState) -> CandidatePool:
    """Return the pool of all units that an arm found, with the products of their vectors; the filters apply here too.

    An id that is no unit's is a reflection's.
    """
    places = {place for arm in state.found.values() for place in arm.places}
    units = list({unit for arm in state.found.values() for unit in arm.units})
    arguments = {
        "host": state.host,
        "bank": state.bank,
        "generation": state.generation,
        "vector": state.vector,
        "characters": CHARACTERS,
        "units": units,
        "sessions": [session for session, _ in places],
        "seqs": [seq for _, seq in places],
    }
    found = await fetch_rows(connection, POOL, {**arguments, **state.filters})
    replaced = state.unstored.replaced
    rows = [row for row in found if row.unit_id not in replaced] if replaced else found
    candidates = [Candidate(*row[:_FIELDS]) for row in rows]
    numbers = np.array([row[_FIELDS + 2 :] for row in rows], dtype=np.float64).reshape(-1, 6)
    missing = np.isnan(numbers)
    numbers[missing] = 0.0
    near = Products(numbers[:, :3], numbers[:, 3:], ~missing[:, :3])
    if state.tail_vectors and state.vector is not None:
        around = [(row.unit_id, row.before_id, row.after_id) for row in rows]
        await _set_tail_products(connection, state, state.vector, near, around)
    pool = add_unstored(state, CandidatePool(candidates, near), units)
    return await add_reflections(connection, state, pool, units)


async def read_whole_texts(
    connection: AsyncConnection, state: RecallState, units: Sequence[UUID]
) -> Mapping[UUID, str]:
    """Return the full texts of the first of these units, up to MOST_BYTES."""
    arguments = {"host": state.host, "bank": state.bank, "units": list(units), "most": MOST_BYTES}
    if not units:
        return {}
    return {row.unit_id: row.content for row in await fetch_rows(connection, TEXTS, arguments)}


async def _set_tail_products(
    connection: AsyncConnection,
    state: RecallState,
    question: NDArray[np.float32],
    near: Products,
    around: Sequence[Sequence[UUID | None]],
) -> None:
    """Set the products in the rows of units of the fresh tail and of their neighbours."""
    rows = [n for n, units in enumerate(around) if not state.tail_vectors.keys().isdisjoint(units)]
    units = {unit for n in rows for unit in around[n] if unit is not None and unit not in state.tail_vectors}
    key = {"host": state.host, "bank": state.bank, "generation": state.generation, "units": list(units)}
    stored = {row.unit_id: row.embedding for row in await fetch_rows(connection, VECTORS, key)} if units else {}
    known = {**state.tail_vectors, **stored, None: np.zeros_like(question)}
    nothing = known[None]
    own, before, after = (
        np.stack([known.get(around[n][nth], nothing) for n in rows] or [nothing])[: len(rows)] for nth in range(3)
    )
    fresh = compute_products(question, own, before, after)
    near.question[rows], near.between[rows], near.known[rows] = fresh.question, fresh.between, fresh.known
