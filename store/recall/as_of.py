"""Reads texts that were corrected after `known_at` as they were then, from the log."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import numpy as np
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.derived.postings import UnitTerms, count_unit_terms
from store.driver_rows import DriverRow, fetch_rows
from store.off_loop import Steps, run_steps_off_loop
from store.recall.lexical import POSTING, Place, Postings
from store.recall.pool import CandidatePool
from store.recall.query import RecallQuery
from store.text.word_rules import WordRules

#: Most units, and most bytes of their texts, that are read; those that were changed first after `known_at`.
MOST = 1000
BYTES = 1_048_576
# By the index `unit_changed`. The last event up to that moment holds the whole state; if it ended the unit, no text.
CHANGED = text("""
    with changed as (
        select u.unit_id, u.session_id, u.seq, u.name, u.role, u.origin, u.context, u.event_date, e.content,
               sum(octet_length(e.content)) over (order by u.update_ts, u.unit_id) as bytes
          from (select u.* from afterturn.agent_memory_unit_t u
                 where u.host_id = :host and u.bank_id = :bank and u.active and u.aggregate_version > 1
                   and u.update_ts > :known_at
                 order by u.update_ts, u.unit_id limit :most) u,
               lateral (select s.data->>'content' as content from afterturn.event_store_t s
                         where s.host_id = :host and s.bank_id = :bank and s.aggregate_key = cast(u.unit_id as text)
                           and s.event_ts <= :known_at
                         order by s.aggregate_version desc limit 1) e
         where e.content is not null
    )
    select unit_id, session_id, seq, name, role, origin, context, event_date, content
      from changed where bytes <= :bytes""")


@dataclass(frozen=True, slots=True)
class EarlierText:
    """The text of a unit as of `known_at`, with its terms and its key in the word index."""

    text: str = field(repr=False)
    terms: UnitTerms = field(repr=False)
    place: Place


async def read_as_of(
    connection: AsyncConnection, host: UUID, query: RecallQuery, rules: WordRules
) -> Mapping[UUID, EarlierText]:
    """Return the earlier texts of units that were known at `known_at` and changed later; none without `known_at`."""
    if query.known_at is None:
        return {}
    place = {
        "host": host,
        "bank": identity.bank_id(host, query.bank),
        "known_at": query.known_at,
        "most": MOST,
        "bytes": BYTES,
    }
    rows = await fetch_rows(connection, CHANGED, place)
    return await run_steps_off_loop(sum(len(row.content) for row in rows), _as_they_were(rows, rules))


def _as_they_were(rows: Sequence[DriverRow], rules: WordRules) -> Steps[Mapping[UUID, EarlierText]]:
    found = {}
    for row in rows:
        found[row.unit_id] = EarlierText(row.content, count_unit_terms(row, rules), _posting_place(row))
        yield
    return found


def correct_frequency(
    frequency: Mapping[str, int], changed: Mapping[UUID, EarlierText], terms: Collection[str]
) -> Mapping[str, int]:
    """Return the document frequencies with the changed units counted that held a term then."""
    more = {term: sum(term in one.terms.counts for one in changed.values()) for term in terms if changed}
    return {**frequency, **{term: frequency.get(term, 0) + number for term, number in more.items() if number}}


def correct_postings(
    postings: Mapping[str, Postings], changed: Mapping[UUID, EarlierText], terms: Sequence[str]
) -> Mapping[str, Postings]:
    """Return the postings of these terms with those of changed units replaced by their earlier ones."""
    if not changed:
        return postings
    gone = {(one.place[0].bytes, one.place[1]) for one in changed.values()}
    found = {}
    for term in terms:
        there = postings.get(term, np.empty(0, dtype=POSTING))
        stays = [(bytes(one["session"]), int(one["seq"])) not in gone for one in there]
        then = [
            (one.place[0].bytes, one.place[1], one.terms.counts[term], one.terms.length)
            for one in changed.values()
            if term in one.terms.counts
        ]
        found[term] = np.concatenate((there[np.array(stays, dtype=bool)], np.array(then, dtype=POSTING)))
    return {term: rows for term, rows in found.items() if len(rows)}


def restore_texts(pool: CandidatePool, changed: Mapping[UUID, EarlierText]) -> CandidatePool:
    """Return the pool with the earlier texts of changed units."""
    if not changed:
        return pool
    candidates = [
        replace(one, text=changed[one.unit_id].text, whole=True) if one.unit_id in changed else one
        for one in pool.candidates
    ]
    return replace(pool, candidates=candidates)


def _posting_place(row: Any) -> Place:
    return (row.unit_id, -1) if row.seq is None or row.session_id is None else (row.session_id, row.seq)
