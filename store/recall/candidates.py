"""Reads the candidates of all arms into a pool: units, vectors and neighbours, in one statement.

In it, `limit` and `offset 0` keep each look-up one probe of an index: in a plain join, a planner that estimates too
many candidates reads the whole bank.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    ARRAY,
    CTE,
    ColumnElement,
    FromClause,
    Integer,
    Select,
    Uuid,
    and_,
    any_,
    bindparam,
    case,
    column,
    exists,
    false,
    func,
    literal_column,
    or_,
    select,
    text,
    true,
    union,
)
from sqlalchemy.dialects.postgresql import array
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived.facts import DENIED, opposite_of
from store.driver_rows import fetch_rows
from store.memory.corrections import WITHDRAWN
from store.recall.dense import Products, compute_products
from store.recall.filters import AS_OF, KNOWN_AT, filter_conditions, happened_at
from store.recall.pinned_arm import is_pinned
from store.recall.pool import Candidate, CandidatePool
from store.recall.reflections import add_reflections
from store.recall.state import RecallState
from store.recall.stored_vectors import IN_GENERATION, VECTOR, measure_distance, select_vector
from store.recall.unstored_units import add_unstored
from store.schema import FACT, UNIT, in_bank
from store.sql_constants import ONE, ZERO, inline
from store.text_lengths import has_at_most

_UNITS = bindparam("units", type_=ARRAY(Uuid))


def ends_in_question(content: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition that a text ends in a question mark, ASCII or full width."""
    last = func.right(func.rtrim(content, literal_column("""E' \\n\\t"'""")), ONE)
    return last.in_([inline("?"), inline("\uff1f")])


def _find_units() -> CTE:
    """Return the units that the arms found by id or by place in a session."""
    unit = UNIT.alias("u")
    place = (
        func.unnest(bindparam("sessions", type_=ARRAY(Uuid)), bindparam("seqs", type_=ARRAY(Integer)))
        .table_valued(column("session_id", Uuid), column("seq", Integer))
        .render_derived("p")
    )
    there = (
        select(unit.c.unit_id)
        .where(in_bank(unit), unit.c.session_id == place.c.session_id, unit.c.seq == place.c.seq)
        .limit(ONE)
        .lateral("u")
    )
    by_id = select(func.unnest(_UNITS).label("unit_id"))
    by_place = select(there.c.unit_id).join_from(place, there, true())
    return union(by_id, by_place).cte("found").prefix_with("materialized")


def _add_sources(found: CTE) -> CTE:
    """Return the units found, and the source messages of facts among them, into which facts are deduplicated."""
    fact = UNIT.alias("f")
    source = (
        select(func.unnest(fact.c.source_memory_ids).label("unit_id"))
        .where(in_bank(fact), fact.c.unit_id == found.c.unit_id)
        .offset(ZERO)
        .lateral("s")
    )
    sources = select(source.c.unit_id).join_from(found, source, true())
    return union(select(found.c.unit_id), sources).cte("wanted").prefix_with("materialized")


def _read_units(wanted: CTE) -> CTE:
    """Return the units that pass the filters and are valid, with the sequence numbers of their neighbours.

    The numbers are computed here: arithmetic is not leakproof, so in a condition on rows under row-level security it
    would keep the planner from the index.
    """
    unit, characters = UNIT.alias("u"), bindparam("characters", type_=Integer)
    is_fact = unit.c.origin == inline("extraction")
    row = (
        select(
            unit.c.unit_id,
            unit.c.fact_type,
            func.left(unit.c.content, characters).label("content"),
            has_at_most(unit.c.content, characters).label("whole"),
            *(unit.c[name] for name in ("session_id", "session_name", "turn_name", "seq", "role", "name")),
            happened_at(unit).label("occurred_at"),
            unit.c.source_memory_ids,
            unit.c.user_id,
            case((is_fact, unit.c["metadata"][inline("confidence")].astext)).label("confidence"),
            func.coalesce(is_pinned(unit), false()).label("pinned"),
            unit.c["metadata"][inline(WITHDRAWN)].astext.label("withdrawn"),
        )
        .where(
            in_bank(unit),
            unit.c.unit_id == wanted.c.unit_id,
            filter_conditions(unit),
            or_(~is_fact, _fact_holds(unit)),
        )
        .limit(ONE)
        .lateral("u")
    )
    before, after = (row.c.seq - ONE).label("seq_before"), (row.c.seq + ONE).label("seq_after")
    return select(row, before, after).join_from(wanted, row, true()).cte("told").prefix_with("materialized")


def _fact_holds(unit: FromClause) -> ColumnElement[bool]:
    """Return the condition that a fact holds: it is no denial, and was not superseded by `as_of`.

    Or that was not known by `known_at`.
    """
    fact, later, teller = FACT.alias("f"), FACT.alias("n"), UNIT.alias("t")
    by_then = func.coalesce(AS_OF, inline("infinity"))
    was_known = (
        select(later.c.unit_id)
        .join_from(later, teller, and_(in_bank(teller), teller.c.unit_id == later.c.unit_id))
        .where(
            in_bank(later),
            later.c.fact_id == any_(array([fact.c.fact_id, opposite_of(fact.c.fact_id)])),
            later.c.subject == fact.c.subject,
            later.c.key == fact.c.key,
            or_(later.c.value != fact.c.value, later.c.fact_id != fact.c.fact_id, later.c.denied),
            later.c.valid_from >= fact.c.valid_to,
            later.c.valid_from <= by_then,
            teller.c.active,
            teller.c.update_ts <= KNOWN_AT,
        )
        .exists()
    )
    superseded = exists().where(
        in_bank(fact),
        fact.c.unit_id == unit.c.unit_id,
        fact.c.valid_to <= by_then,
        or_(KNOWN_AT.is_(None), was_known),
    )
    return and_(unit.c["metadata"][inline(DENIED)].is_(None), ~superseded)


def _select_neighbour(unit: FromClause, seq: ColumnElement[int]) -> Select[object]:
    """Select the message of this number in a unit's session, if it passes the filters.

    `asks`: it is a question of another speaker, which the unit answers. A long message is not taken for a question, and
    its text is not read.
    """
    neighbour = UNIT.alias("n")
    vector = select_vector(neighbour.c.unit_id).lateral("v")
    asks = and_(
        func.octet_length(neighbour.c.content) <= inline(1000),
        ends_in_question(neighbour.c.content),
        func.coalesce(neighbour.c.name, neighbour.c.role).is_distinct_from(func.coalesce(unit.c.name, unit.c.role)),
    )
    return (
        select(neighbour.c.unit_id, vector.c.embedding, asks.label("asks"))
        .join_from(neighbour, vector, true(), isouter=True)
        .where(
            in_bank(neighbour),
            neighbour.c.session_id == unit.c.session_id,
            neighbour.c.seq == seq,
            filter_conditions(neighbour),
        )
        .limit(ONE)
    )


def _select_pool() -> Select[object]:
    """Select the fields of a Candidate, in their order, its neighbours' ids, and the inner products of the vectors.

    The vectors themselves are not sent. The dense arm needs only their products: of the question with own, before and
    after; of own with before, own with after, before with after.
    """
    unit = _read_units(_add_sources(_find_units())).alias("u")
    own = select_vector(unit.c.unit_id).lateral("v")
    before = _select_neighbour(unit, unit.c.seq_before).lateral("b")
    after = _select_neighbour(unit, unit.c.seq_after).lateral("a")
    vector, vector_before, vector_after = (row.c.embedding for row in (own, before, after))
    return (
        select(
            *(unit.c[name] for name in ("unit_id", "fact_type", "content", "whole", "session_id", "session_name")),
            *(unit.c[name] for name in ("turn_name", "seq", "role", "name", "occurred_at", "source_memory_ids")),
            func.coalesce(before.c.asks, false()).label("answers"),
            *(unit.c[name] for name in ("user_id", "confidence", "pinned", "withdrawn")),
            before.c.unit_id.label("before_id"),
            after.c.unit_id.label("after_id"),
            -measure_distance(vector),
            -measure_distance(vector_before),
            -measure_distance(vector_after),
            -measure_distance(vector, vector_before),
            -measure_distance(vector, vector_after),
            -measure_distance(vector_before, vector_after),
        )
        .join_from(unit, own, true(), isouter=True)
        .join(before, true(), isouter=True)
        .join(after, true(), isouter=True)
    )


POOL = _select_pool()
VECTORS = select(VECTOR.c.unit_id, VECTOR.c.embedding).where(
    IN_GENERATION, VECTOR.c.unit_id == any_(_UNITS), VECTOR.c.chunk == ZERO
)
TEXTS = text("""
    select t.unit_id, t.content
      from (select u.unit_id, u.content, sum(octet_length(u.content)) over (order by w.nth) as bytes
              from unnest(cast(:units as uuid[])) with ordinality w(unit_id, nth),
                   lateral (select u.unit_id, u.content from afterturn.agent_memory_unit_t u
                             where u.host_id = :host and u.bank_id = :bank and u.unit_id = w.unit_id offset 0) u) t
     where t.bytes <= :most""")


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
        **state.vector_place,
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
    arguments = {**state.place, "units": list(units), "most": MOST_BYTES}
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
    key = {**state.place, "generation": state.generation, "units": list(units)}
    stored = {row.unit_id: row.embedding for row in await fetch_rows(connection, VECTORS, key)} if units else {}
    known = {**state.tail_vectors, **stored, None: np.zeros_like(question)}
    nothing = known[None]
    own, before, after = (
        np.stack([known.get(around[n][nth], nothing) for n in rows] or [nothing])[: len(rows)] for nth in range(3)
    )
    fresh = compute_products(question, own, before, after)
    near.question[rows], near.between[rows], near.known[rows] = fresh.question, fresh.between, fresh.known
