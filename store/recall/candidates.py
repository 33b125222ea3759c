"""From what the arms found to the pool that is compared: one read of units, vectors and neighbours."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.recall.arms import Found, Search
from store.recall.filters import conditions
from store.recall.pool import Candidate, Pool

#: The rules judge a text by its beginning; a message may be 256 KiB.
CHARACTERS = 4000

#: The first columns of a row are a Candidate's fields, in their order.
_FIELDS = len(fields(Candidate))

_NEIGHBOUR = f"""
    select n.unit_id, w.embedding
      from afterturn.agent_memory_unit_t n
      left join afterturn.unit_vector_t w
        on w.host_id = :host and w.bank_id = :bank and w.generation = :generation and w.unit_id = n.unit_id
       and w.chunk = 0
     where n.host_id = :host and n.bank_id = :bank and n.session_id = u.session_id and n.seq = u.{{seq}}
       and {conditions("n")}"""  # noqa: S608 - put together from constants

# A found fact brings the messages it was drawn from, so that it can be folded into them. Neighbours are fetched by
# their number in the session; the same filters hold for them. That number is worked out beforehand: arithmetic is not
# leakproof, and beside it row-level security would keep the planner from the index.
POOL = text(f"""
    with found as materialized (
        select unnest(cast(:units as uuid[])) as unit_id
        union
        select u.unit_id
          from unnest(cast(:sessions as uuid[]), cast(:seqs as int[])) p(session_id, seq)
          join afterturn.agent_memory_unit_t u
            on u.host_id = :host and u.bank_id = :bank and u.session_id = p.session_id and u.seq = p.seq
    ), wanted as materialized (
        select unit_id from found
        union
        select unnest(f.source_memory_ids) from found w join afterturn.agent_memory_unit_t f
            on f.host_id = :host and f.bank_id = :bank and f.unit_id = w.unit_id
    ), told as materialized (
        select u.unit_id, u.fact_type, left(u.content, :characters) as content,
               length(u.content) <= :characters as whole, u.session_id, u.session_name, u.turn_name, u.seq, u.role,
               u.name, coalesce(u.occurred_start, u.event_date) as occurred_at, u.source_memory_ids,
               u.seq - 1 as seq_before, u.seq + 1 as seq_after
          from wanted w
          join afterturn.agent_memory_unit_t u on u.host_id = :host and u.bank_id = :bank and u.unit_id = w.unit_id
         where {conditions("u")}
    )
    select u.unit_id, u.fact_type, u.content, u.whole, u.session_id, u.session_name, u.turn_name, u.seq, u.role, u.name,
           u.occurred_at, u.source_memory_ids,
           v.embedding as own, b.unit_id as before_id, b.embedding as before, a.unit_id as after_id,
           a.embedding as after
      from told u
      left join afterturn.unit_vector_t v
        on v.host_id = :host and v.bank_id = :bank and v.generation = :generation and v.unit_id = u.unit_id
       and v.chunk = 0
      left join lateral ({_NEIGHBOUR.format(seq="seq_before")}) b on true
      left join lateral ({_NEIGHBOUR.format(seq="seq_after")}) a on true""")  # noqa: S608 - put together from constants
TEXTS = text("""
    select u.unit_id, u.content from afterturn.agent_memory_unit_t u
     where u.host_id = :host and u.bank_id = :bank and u.unit_id = any(cast(:units as uuid[]))""")


async def load(connection: AsyncConnection, search: Search, found: Sequence[Found]) -> Pool:
    """Read every unit that some arm found, with its vector and its neighbours'; filters hold here too."""
    places = {place for arm in found for place in arm.places}
    arguments = {
        "host": search.host,
        "bank": search.bank,
        "generation": search.generation,
        "characters": CHARACTERS,
        "units": list({unit for arm in found for unit in arm.units}),
        "sessions": [session for session, _ in places],
        "seqs": [seq for _, seq in places],
    }
    rows = (await connection.execute(POOL, {**arguments, **search.filters})).all()
    return Pool(
        [Candidate(*row[:_FIELDS]) for row in rows],
        _vectors([(row.unit_id, row.own) for row in rows], search),
        _vectors([(row.before_id, row.before) for row in rows], search),
        _vectors([(row.after_id, row.after) for row in rows], search),
    )


async def whole_texts(connection: AsyncConnection, search: Search, units: Sequence[UUID]) -> Mapping[UUID, str]:
    """Return the full texts of these units."""
    arguments = {"host": search.host, "bank": search.bank, "units": list(units)}
    if not units:
        return {}
    return {row.unit_id: row.content for row in await connection.execute(TEXTS, arguments)}


def _vectors(stored: Sequence[tuple[UUID | None, NDArray[np.float32] | None]], search: Search) -> NDArray[np.float32]:
    """Stack vectors in order; one that is not stored yet may be in the fresh tail, else it is a row of zeros."""
    table = np.zeros((len(stored), len(search.vector)), dtype=np.float32)
    for row, (unit, vector) in enumerate(stored):
        known = search.tail.get(unit) if vector is None and unit is not None else vector
        if known is not None:
            table[row] = known
    return table
