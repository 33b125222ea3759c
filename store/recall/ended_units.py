"""Reads units that ended after the question's `as_of`, which are found until their text is erased.

Their words and vectors were deleted when they ended, so they are made with the question, as those of pending facts.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    FromClause,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    false,
    func,
    or_,
    select,
    true,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived.postings import count_unit_terms
from store.driver_rows import DriverRow, fetch_rows
from store.log.catalog import EventType
from store.off_loop import run_off_loop
from store.recall import filters
from store.recall.pinned_arm import is_pinned
from store.recall.pool import Candidate
from store.recall.question import Question
from store.recall.state import RecallState, UnstoredUnits
from store.recall.unstored_units import pack_words
from store.schema import BANK, EVENT_STORE, TIME, UNIT, in_bank
from store.sql_constants import ONE, inline

#: Most units, and most bytes of their texts; those that ended last are read.
MOST = 1000
BYTES = 1_048_576
_MOMENT, _MOST = bindparam("moment", type_=TIME), bindparam("most", type_=Integer)


def _find_ended() -> CTE:
    """Return the units that ended, and when: by their own expiry, or with their bank.

    The first are found by the index `unit_expired`. A unit that ended by its expiry was last written after that.
    """
    bank, unit = BANK.alias("b"), UNIT.alias("u")
    ended_bank = (
        select(bank.c.update_ts.label("ended_at"))
        .where(in_bank(bank), ~bank.c.active, bank.c.update_ts >= bank.c.expires_at)
        .cte("bank")
        .prefix_with("materialized")
    )
    is_gone = and_(in_bank(unit), ~unit.c.active, unit.c.content != inline(""))
    by_itself = (
        select(unit.c.unit_id, unit.c.update_ts.label("ended_at"))
        .where(
            is_gone,
            unit.c.expires_at.is_not(None),
            unit.c.update_ts > _MOMENT,
            unit.c.expires_at > _MOMENT,
            unit.c.update_ts >= unit.c.expires_at,
        )
        .order_by(unit.c.update_ts.desc(), unit.c.unit_id)
        .limit(_MOST)
    )
    had_time = and_(unit.c.expires_at > _MOMENT, unit.c.update_ts < unit.c.expires_at)
    with_bank = (
        select(unit.c.unit_id, ended_bank.c.ended_at)
        .join_from(ended_bank, unit, true())
        .where(is_gone, or_(unit.c.expires_at.is_(None), had_time))
        .order_by(unit.c.position.desc(), unit.c.unit_id)
        .limit(_MOST)
    )
    return union_all(by_itself, with_bank).cte("ended").prefix_with("materialized")


def _read_told(ended: CTE) -> CTE:
    """Return the units that pass the filters, with their last recorded text, and the running sum of bytes.

    A unit that was forgotten before it ended is none of them: not by `known_at` either.
    """
    unit, event = UNIT.alias("u"), EVENT_STORE.alias("s")
    row = (
        select(unit)
        .where(in_bank(unit), unit.c.unit_id == ended.c.unit_id, filters.conditions_of_ended(unit))
        .limit(ONE)
        .lateral("u")
    )
    recorded_by = func.coalesce(bindparam("recorded_by", type_=TIME), inline("infinity"))
    last = _find_last_event(row, ended, EVENT_STORE.alias("l")).lateral("last")
    told = _find_last_event(row, ended, event).where(event.c.event_ts <= recorded_by).lateral("e")
    size = func.sum(func.octet_length(told.c.content)).over(order_by=(ended.c.ended_at.desc(), row.c.unit_id))
    return (
        select(row, told.c.content.label("said"), ended.c.ended_at, size.label("total_bytes"))
        .join_from(ended, row, true())
        .join(last, true())
        .join(told, true())
        .where(last.c.content.is_not(None), told.c.content.is_not(None), _find_earlier_end(row, ended, last).is_(None))
        .cte("told")
    )


def _find_last_event(row: FromClause, ended: FromClause, event: FromClause) -> Select[*tuple[Any, ...]]:
    """Select position and text of a unit's last event before its end; that of a forgotten unit has no text."""
    return (
        select(event.c.position, event.c.data[inline("content")].astext.label("content"))
        .where(
            in_bank(event),
            event.c.aggregate_key == cast(row.c.unit_id, Text),
            event.c.event_ts < ended.c.ended_at,
        )
        .order_by(event.c.aggregate_version.desc())
        .limit(ONE)
    )


def _find_earlier_end(row: FromClause, ended: FromClause, last: FromClause) -> ColumnElement[Any]:
    """Return true where a unit had ended with its document, or with an earlier life of its bank, null elsewhere.

    Such an end is no event of the unit's own: it comes after the unit's last one.
    """
    gone = EVENT_STORE.alias("g")
    return (
        select(true())
        .where(
            in_bank(gone),
            gone.c.aggregate_key.in_([cast(row.c.doc_id, Text), inline("")]),
            gone.c.event_type.in_([inline(EventType.DOC_DELETED), inline(EventType.BANK_DELETED)]),
            gone.c.position > last.c.position,
            gone.c.event_ts < ended.c.ended_at,
        )
        .limit(ONE)
        .scalar_subquery()
    )


def _select_ended() -> Select[*tuple[Any, ...]]:
    """Select the units that ended last and pass the filters, up to `most` units and `bytes` bytes."""
    told = _read_told(_find_ended())
    confidence = told.c["metadata"][inline("confidence")].astext
    return (
        select(
            told.c.unit_id,
            told.c.fact_type,
            told.c.said.label("content"),
            *(
                told.c[name]
                for name in ("session_id", "session_name", "turn_name", "role", "name", "origin", "context")
            ),
            told.c.event_date,
            filters.happened_at(told).label("occurred_at"),
            told.c.source_memory_ids,
            told.c.user_id,
            case((told.c.origin == inline("extraction"), confidence)).label("confidence"),
            func.coalesce(is_pinned(told), false()).label("pinned"),
        )
        .where(told.c.total_bytes <= bindparam("bytes", type_=Integer))
        .order_by(told.c.ended_at.desc(), told.c.unit_id)
    )


ENDED = _select_ended()


async def read_ended_units(connection: AsyncConnection, state: RecallState) -> UnstoredUnits:
    """Return the ended units that pass the filters, in the question's transaction; none without `as_of`, `known_at`."""
    query = state.query
    if query.as_of is None and query.known_at is None:
        return UnstoredUnits()
    arguments = {
        **filters.filter_parameters(query, state.bank),
        # The log tells which texts were recorded later: a row's own time is that of its end.
        "known_at": None,
        "recorded_by": query.known_at,
        **state.place,
        "moment": state.now,
        "most": MOST,
        "bytes": BYTES,
    }
    rows = await fetch_rows(connection, ENDED, arguments)
    words = await run_off_loop(sum(len(row.content) for row in rows), _pack_words, rows, state.question)
    return UnstoredUnits({row.unit_id: _build_candidate(row) for row in rows}, words)


def _pack_words(rows: Sequence[DriverRow], question: Question) -> dict[str, bytes]:
    return pack_words(((row.unit_id, count_unit_terms(row, question.rules[0])) for row in rows), question)


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
