"""Finds reflections by their vectors and adds them to the pool.

A reflection stands in no session and its words in no index; it is of the kind of observations. What it was drawn from
is written in the log, in the event that made it say what it says. It is told when each of those facts may be told: all
of them are there, and the question's filters hold for each.
"""

from collections.abc import Sequence
from uuid import UUID

import numpy as np
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.driver_rows import DriverRow, fetch_rows
from store.log.catalog import EventType
from store.memory.reflections import KIND
from store.recall.dense import Products
from store.recall.filters import any_kind_text
from store.recall.pool import Candidate, CandidatePool
from store.recall.state import RecallState

#: The nearest reflections that are found beside the units where a filter applies; they displace no unit.
NEAREST = 8

IS_ASKED_FOR = f"(cast(:kinds as text[]) is null or '{KIND}' = any(cast(:kinds as text[])))"
# Of facts that were said in several turns, the last is the one that is named.
TOLD = text(f"""
    select r.reflection_id, r.content, s.*, -(v.embedding <#> cast(:vector as halfvec)) as near
      from unnest(cast(:reflections as uuid[])) w(reflection_id),
           lateral (select r.* from afterturn.agent_memory_reflection_t r
                     where r.host_id = :host and r.bank_id = :bank and r.reflection_id = w.reflection_id and r.active
                       and r.content <> '' and {IS_ASKED_FOR}
                       and (cast(:known_at as timestamptz) is null or r.update_ts <= cast(:known_at as timestamptz))
                     limit 1) r,
           lateral (select e.data->'sourceMemoryIds' as ids from afterturn.event_store_t e
                     where e.host_id = :host
                       and e.bank_id = :bank and e.aggregate_key = cast(w.reflection_id as text)
                       and e.event_type in ('{EventType.REFLECTION_CREATED}', '{EventType.REFLECTION_UPDATED}')
                     order by e.aggregate_version desc limit 1) e,
           lateral (select (array_agg(u.session_name order by u.at desc, u.position desc))[1] as session_name,
                           array_agg(u.turn_name order by u.at desc, u.position desc) as turns,
                           max(u.at) as occurred_at,
                           case when count(distinct u.user_id) = 1 then (array_agg(u.user_id))[1] end as user_id
                      from jsonb_array_elements_text(e.ids) f(id)
                      left join lateral (
                           select u.unit_id, u.session_name, u.turn_name, u.position, u.user_id,
                                  coalesce(u.occurred_start, u.event_date) as at
                             from afterturn.agent_memory_unit_t u
                            where u.host_id = :host and u.bank_id = :bank and u.unit_id = cast(f.id as uuid)
                              and {any_kind_text("u")} limit 1) u on true
                    having count(*) > 0 and count(*) = count(u.unit_id)) s,
           lateral (select v.embedding from afterturn.unit_vector_t v
                     where v.host_id = :host and v.bank_id = :bank and v.generation = :generation
                       and v.unit_id = w.reflection_id and v.chunk = 0 limit 1) v""")  # noqa: S608 - constants of ours


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
