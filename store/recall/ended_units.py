"""Units that ended after the question's `as_of`: still answered until their text is erased.

Its words and vectors went when it was ended, so they are made with the question, as those of facts that wait.
"""

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived.postings import terms_of
from store.driver_rows import DriverRow, fetch_rows
from store.off_loop import off_loop
from store.recall import filters
from store.recall.pinned_arm import IS_PINNED
from store.recall.pool import Candidate
from store.recall.question import Question
from store.recall.state import RecallState, Unindexed
from store.recall.unindexed import pack_posting

#: Of more, those that ended last are told.
MOST = 1000
BYTES = 1_048_576
# By the index `unit_expired`; of a bank that ended as a whole, its units. What ended by its own time was written last
# when that had come. What was forgotten before has no text in its last event.
ENDED = text(f"""
    with bank as materialized (
        select b.update_ts as ended_at from afterturn.agent_memory_bank_t b
         where b.host_id = :host and b.bank_id = :bank and not b.active and b.update_ts >= b.expires_at
    ), ended as materialized (
        (select u.unit_id, u.update_ts as ended_at from afterturn.agent_memory_unit_t u
          where u.host_id = :host and u.bank_id = :bank and u.expires_at is not null and not u.active
            and u.content <> '' and u.update_ts > cast(:moment as timestamptz)
            and u.expires_at > cast(:moment as timestamptz) and u.update_ts >= u.expires_at
          order by u.update_ts desc, u.unit_id limit :most)
        union all
        (select u.unit_id, b.ended_at from bank b, afterturn.agent_memory_unit_t u
          where u.host_id = :host and u.bank_id = :bank and not u.active and u.content <> ''
            and (u.expires_at is null
                 or u.expires_at > cast(:moment as timestamptz) and u.update_ts < u.expires_at)
          order by u.position desc, u.unit_id limit :most)
    ), told as (
        select u.*, e.content as said, w.ended_at,
               sum(octet_length(e.content)) over (order by w.ended_at desc, u.unit_id) as total_bytes
          from ended w,
               lateral (select u.* from afterturn.agent_memory_unit_t u
                         where u.host_id = :host and u.bank_id = :bank and u.unit_id = w.unit_id
                           and {filters.ended_text("u")} limit 1) u,
               lateral (select s.data->>'content' as content from afterturn.event_store_t s
                         where s.host_id = :host and s.bank_id = :bank and s.aggregate_key = cast(u.unit_id as text)
                           and s.event_ts < w.ended_at
                           and s.event_ts <= coalesce(cast(:recorded_by as timestamptz), 'infinity')
                         order by s.aggregate_version desc limit 1) e
         where e.content is not null
    )
    select unit_id, fact_type, said as content, session_id, session_name, turn_name, role, name, origin, context,
           event_date, coalesce(occurred_start, event_date) as occurred_at, source_memory_ids, user_id,
           case when origin = 'extraction' then metadata->>'confidence' end as confidence,
           coalesce({IS_PINNED.format(unit="told")}, false) as pinned
      from told where total_bytes <= :bytes order by ended_at desc, unit_id""")  # noqa: S608 - constants of ours


async def read_ended_units(connection: AsyncConnection, state: RecallState) -> Unindexed:
    """Return what passes the question's filters, inside its transaction; none unless it is about a moment."""
    query = state.query
    if query.as_of is None and query.known_at is None:
        return Unindexed()
    arguments = {
        **filters.filter_parameters(query, state.bank),
        # What was recorded later is told by the log: the row was written when it ended.
        "known_at": None,
        "recorded_by": query.known_at,
        "host": state.host,
        "bank": state.bank,
        "moment": state.now,
        "most": MOST,
        "bytes": BYTES,
    }
    rows = await fetch_rows(connection, ENDED, arguments)
    words = await off_loop(sum(len(row.content) for row in rows), _pack_words, rows, state.question)
    return Unindexed({row.unit_id: _build_candidate(row) for row in rows}, words)


def _pack_words(rows: Sequence[DriverRow], question: Question) -> dict[str, bytes]:
    """Return the postings of these units for the question's terms, as they stood in the index."""
    packed, asked = defaultdict[str, bytes](bytes), question.words.keys()
    for row in rows:
        words = terms_of(row, question.rules[0])
        for term in asked & words.counts.keys():
            packed[term] += pack_posting(row.unit_id, words.counts[term], words.length)
    return dict(packed)


def _build_candidate(row: DriverRow) -> Candidate:
    return Candidate(
        unit_id=row.unit_id,
        kind=row.fact_type,
        text=row.content,
        whole=True,
        session_id=row.session_id,
        session_name=row.session_name,
        turn_name=row.turn_name,
        seq=None,
        role=row.role,
        name=row.name,
        occurred_at=row.occurred_at,
        sources=tuple(row.source_memory_ids),
        user_id=row.user_id,
        confidence=row.confidence,
        pinned=row.pinned,
    )
