"""Reads the candidates of all arms: units, vectors and neighbours, in one statement."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.driver_rows import fetch_rows
from store.recall.dense import Products, compute_products
from store.recall.filters import filter_text
from store.recall.pinned_arm import IS_PINNED
from store.recall.pool import Candidate, CandidatePool
from store.recall.reflections import with_reflections
from store.recall.state import RecallState
from store.recall.unindexed import add_unindexed

#: The rules judge a text by its beginning; a message may be 256 KiB.
CHARACTERS = 4000

#: Bytes of long texts that an answer holds, which tells each twice and has 8 MiB; of the others it tells the beginning.
MOST_BYTES = 4_194_304

#: The first columns of a row are a Candidate's fields, in their order; the last is of reflections alone.
_FIELDS = len(fields(Candidate)) - 1

_VECTOR = """
    select v.embedding from afterturn.unit_vector_t v
     where v.host_id = :host and v.bank_id = :bank and v.generation = :generation and v.unit_id = {unit}
       and v.chunk = 0 limit 1"""
# A question of another speaker, which the next message answers. A long message that ends in a question is none, and is
# not even read.
_ASKS = """octet_length(n.content) <= 1000 and right(rtrim(n.content, E' \\n\\t"'), 1) in ('?', '\uff1f')
           and coalesce(n.name, n.role) is distinct from coalesce(u.name, u.role) as asks"""
_NEIGHBOUR = f"""
    select n.unit_id, v.embedding, {_ASKS}
      from afterturn.agent_memory_unit_t n left join lateral ({_VECTOR.format(unit="n.unit_id")}) v on true
     where n.host_id = :host and n.bank_id = :bank and n.session_id = u.session_id and n.seq = u.{{seq}}
       and {filter_text("n")} limit 1"""  # noqa: S608 - put together from constants

# A fact that something else has replaced is not told as if it held; what was said stays said. As of a moment before
# that, it held; and at a moment when nobody had been told of anything else yet, it was known to hold.
_HOLDS = """not exists (
               select from afterturn.fact_t f
                where f.host_id = :host and f.bank_id = :bank and f.unit_id = u.unit_id
                  and f.valid_to <= coalesce(cast(:as_of as timestamptz), 'infinity')
                  and (cast(:known_at as timestamptz) is null or exists (
                       select from afterturn.fact_t n
                         join afterturn.agent_memory_unit_t t
                           on t.host_id = :host and t.bank_id = :bank and t.unit_id = n.unit_id
                        where n.host_id = :host and n.bank_id = :bank and n.fact_id = f.fact_id
                          and n.subject = f.subject and n.key = f.key and n.value <> f.value
                          and n.valid_from >= f.valid_to
                          and n.valid_from <= coalesce(cast(:as_of as timestamptz), 'infinity')
                          and t.active and t.update_ts <= cast(:known_at as timestamptz))))"""

# A found fact brings the messages it was drawn from, so that it can be folded into them. Neighbours are fetched by
# their number in the session; the same filters hold for them. That number is worked out beforehand: arithmetic is not
# leakproof, and beside it row-level security would keep the planner from the index. Vectors stay where they are: what
# the dense arm needs are their inner products. `limit` and `offset 0` keep each
# look-up one probe of an index: joined at large, a planner that guesses too many candidates reads the whole bank.
POOL = text(f"""
    with found as materialized (
        select unnest(cast(:units as uuid[])) as unit_id
        union
        select u.unit_id
          from unnest(cast(:sessions as uuid[]), cast(:seqs as int[])) p(session_id, seq),
               lateral (select u.unit_id from afterturn.agent_memory_unit_t u
                         where u.host_id = :host and u.bank_id = :bank and u.session_id = p.session_id
                           and u.seq = p.seq limit 1) u
    ), wanted as materialized (
        select unit_id from found
        union
        select s.unit_id
          from found w,
               lateral (select unnest(f.source_memory_ids) as unit_id from afterturn.agent_memory_unit_t f
                         where f.host_id = :host and f.bank_id = :bank and f.unit_id = w.unit_id offset 0) s
    ), told as materialized (
        select u.*, u.seq - 1 as seq_before, u.seq + 1 as seq_after
          from wanted w,
               lateral (select u.unit_id, u.fact_type, left(u.content, :characters) as content,
                               length(u.content) <= :characters as whole, u.session_id, u.session_name, u.turn_name,
                               u.seq, u.role, u.name, coalesce(u.occurred_start, u.event_date) as occurred_at,
                               u.source_memory_ids, u.user_id,
                               case when u.origin = 'extraction' then u.metadata->>'confidence' end as confidence,
                               coalesce({IS_PINNED.format(unit="u")}, false) as pinned
                          from afterturn.agent_memory_unit_t u
                         where u.host_id = :host and u.bank_id = :bank and u.unit_id = w.unit_id
                           and {filter_text("u")} and (u.origin <> 'extraction' or {_HOLDS}) limit 1) u
    )
    select u.unit_id, u.fact_type, u.content, u.whole, u.session_id, u.session_name, u.turn_name, u.seq, u.role, u.name,
           u.occurred_at, u.source_memory_ids, coalesce(b.asks, false) as answers, u.user_id, u.confidence, u.pinned,
           b.unit_id as before_id, a.unit_id as after_id,
           -(v.embedding <#> cast(:vector as halfvec)), -(b.embedding <#> cast(:vector as halfvec)),
           -(a.embedding <#> cast(:vector as halfvec)),
           -(v.embedding <#> b.embedding), -(v.embedding <#> a.embedding), -(b.embedding <#> a.embedding)
      from told u
      left join lateral ({_VECTOR.format(unit="u.unit_id")}) v on true
      left join lateral ({_NEIGHBOUR.format(seq="seq_before")}) b on true
      left join lateral ({_NEIGHBOUR.format(seq="seq_after")}) a on true""")  # noqa: S608 - put together from constants
VECTORS = text("""
    select v.unit_id, v.embedding from afterturn.unit_vector_t v
     where v.host_id = :host and v.bank_id = :bank and v.generation = :generation
       and v.unit_id = any(cast(:units as uuid[])) and v.chunk = 0""")
TEXTS = text("""
    select t.unit_id, t.content
      from (select u.unit_id, u.content, sum(octet_length(u.content)) over (order by w.nth) as bytes
              from unnest(cast(:units as uuid[])) with ordinality w(unit_id, nth),
                   lateral (select u.unit_id, u.content from afterturn.agent_memory_unit_t u
                             where u.host_id = :host and u.bank_id = :bank and u.unit_id = w.unit_id offset 0) u) t
     where t.bytes <= :most""")


async def load_pool(connection: AsyncConnection, state: RecallState) -> CandidatePool:
    """Read every unit that some arm found, and how near it and its neighbours are; filters hold here too.

    What an arm found that is no unit is a reflection.
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
    rows = [row for row in found if row.unit_id not in state.unindexed.replaced]
    candidates = [Candidate(*row[:_FIELDS]) for row in rows]
    numbers = np.array([row[_FIELDS + 2 :] for row in rows], dtype=np.float64).reshape(-1, 6)
    stored = np.nan_to_num(numbers)
    near = Products(stored[:, :3], stored[:, 3:], ~np.isnan(numbers[:, :3]))
    if state.tail and state.vector is not None:
        around = [(row.unit_id, row.before_id, row.after_id) for row in rows]
        await _add_tail(connection, state, state.vector, near, around)
    pool = add_unindexed(state, CandidatePool(candidates, near), units)
    return await with_reflections(connection, state, pool, units)


async def whole_texts(connection: AsyncConnection, state: RecallState, units: Sequence[UUID]) -> Mapping[UUID, str]:
    """Return the full texts of these units, of the first of them as many as an answer has room for."""
    arguments = {"host": state.host, "bank": state.bank, "units": list(units), "most": MOST_BYTES}
    if not units:
        return {}
    return {row.unit_id: row.content for row in await fetch_rows(connection, TEXTS, arguments)}


async def _add_tail(
    connection: AsyncConnection,
    state: RecallState,
    question: NDArray[np.float32],
    near: Products,
    around: Sequence[Sequence[UUID | None]],
) -> None:
    """Put in the products of the rows that hold, or stand beside, a unit of the fresh tail."""
    rows = [n for n, units in enumerate(around) if not state.tail.keys().isdisjoint(units)]
    units = {unit for n in rows for unit in around[n] if unit is not None and unit not in state.tail}
    key = {"host": state.host, "bank": state.bank, "generation": state.generation, "units": list(units)}
    stored = {row.unit_id: row.embedding for row in await fetch_rows(connection, VECTORS, key)} if units else {}
    known = {**state.tail, **stored, None: np.zeros_like(question)}
    nothing = known[None]
    own, before, after = (
        np.stack([known.get(around[n][nth], nothing) for n in rows] or [nothing])[: len(rows)] for nth in range(3)
    )
    fresh = compute_products(question, own, before, after)
    near.question[rows], near.between[rows], near.known[rows] = fresh.question, fresh.between, fresh.known
