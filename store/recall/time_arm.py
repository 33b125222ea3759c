"""Runs the time arm: prefers units that were said in the time that a question names, or that mention this time."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ARRAY, Integer, Select, bindparam, column, func, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from store.driver_rows import fetch_rows
from store.recall.filters import filter_conditions, happened_at
from store.recall.pool import CandidatePool
from store.recall.state import ArmResult, RecallState
from store.recall.stored_vectors import measure_distance, select_vector
from store.schema import TIME, UNIT, in_bank
from store.text.known_texts import KnownTexts, digest_text
from store.text.times import DAY, TimeSpan, find_spans

Numbers = NDArray[np.float64]

#: Most units said in the asked time that the arm contributes, the nearest in meaning.
UNITS = 40
#: Most days of an asked time whose units are read; a longer time is found by the words of its month or year.
MOST_DAYS = 31
#: Most units of one day that are read.
OF_A_DAY = 200
#: Messages of the days after an event often report it; their score falls with the distance.
TOLD_LATER = 0.8
SOON = timedelta(days=7)
#: Share of its score that a unit has for a time that is longer than a day.
LONGER = 0.5
#: Most texts that are searched for mentions of the asked time, the nearest in time, and the characters of each.
TEXTS = 32
CHARACTERS = 1000
#: A text is searched only for asked times that are within this time of when it was said.
ABOUT = timedelta(days=400)
# The times of texts, 4 KiB each at most.
_KNOWN = KnownTexts[tuple[Numbers, Numbers]](2048)


def _select_said() -> Select[UUID]:
    """Select units said on the asked days, the nearest to the question in meaning first.

    Those of each day are found by the index `unit_by_occurrence`; of a day with more than `of_a_day`, the newest.
    """
    unit = UNIT.alias("u")
    days = (
        func.unnest(bindparam("begins", type_=ARRAY(TIME)), bindparam("ends", type_=ARRAY(TIME)))
        .table_valued(column("begins", TIME), column("ends", TIME))
        .render_derived("t")
    )
    at = happened_at(unit)
    of_a_day = (
        select(unit.c.unit_id)
        .where(in_bank(unit), at >= days.c.begins, at < days.c.ends, filter_conditions(unit))
        .order_by(at.desc())
        .limit(bindparam("of_a_day", type_=Integer))
        .lateral("u")
    )
    said = select(of_a_day).distinct().join_from(days, of_a_day, true()).cte("said").prefix_with("materialized")
    vector = select_vector(said.c.unit_id).lateral("v")
    return (
        select(said.c.unit_id)
        .join_from(said, vector, true(), isouter=True)
        .order_by(measure_distance(vector.c.embedding), said.c.unit_id)
        .limit(bindparam("units", type_=Integer))
    )


SAID = _select_said()


class TimeArm:
    """The arm of time: units said in the asked time or mentioning it; none if the question names no time."""

    name = "time"
    weight = 0.3
    needs_vector = True

    async def find(self, connection: AsyncConnection, state: RecallState) -> ArmResult:
        """Return the units said on the asked days, the nearest in meaning first."""
        if not state.times:
            return ArmResult([], [], lambda pool: np.zeros(len(pool)))
        days = split_days(state.times)
        arguments = {
            **state.vector_place,
            "of_a_day": OF_A_DAY,
            "begins": [day.begin for day in days],
            "ends": [day.end for day in days],
            "units": UNITS,
            **state.filters,
        }
        found: list[UUID] = [row.unit_id for row in await fetch_rows(connection, SAID, arguments)] if days else []
        times = state.times
        return ArmResult(found, [], lambda pool: score_timeliness(pool, times))


def split_days(times: Sequence[TimeSpan]) -> list[TimeSpan]:
    """Return the days of these times, the last day of each cut at the time's end; none if they are over MOST_DAYS."""
    days = [
        TimeSpan(begin, min(begin + DAY, span.end))
        for span in times
        if span.length <= MOST_DAYS * DAY
        for begin in (span.begin + n * DAY for n in range(-(-span.length // DAY)))
    ]
    return days if len(days) <= MOST_DAYS else []


def score_timeliness(pool: CandidatePool, times: Sequence[TimeSpan]) -> Numbers:
    """Return how well each unit fits the asked times, from 0 to 1; shape (len(pool),).

    A unit said in one of them, or mentioning one, has 1; a unit said in the days after has less. A longer time than a
    day says less of what is asked for: for it a unit has half.
    """
    days = [span for span in times if span.length <= DAY]
    scores = _score_units(pool, times)
    if len(days) == len(times):
        return scores
    return np.maximum(LONGER * scores, _score_units(pool, days)) if days else LONGER * scores


def _score_units(pool: CandidatePool, times: Sequence[TimeSpan]) -> Numbers:
    moments = [unit.occurred_at for unit in pool.candidates]
    scores, away = score_moments(moments, times), measure_distance_to_times(moments, times)
    for index in [int(at) for at in np.argsort(away, kind="stable") if scores[at] < 1][:TEXTS]:
        unit = pool.candidates[index]
        if mentions_time(unit.text[:CHARACTERS], unit.occurred_at, times):
            scores[index] = 1.0
    return scores


def score_moments(moments: Sequence[datetime], times: Sequence[TimeSpan]) -> Numbers:
    """Return how well a unit said at each moment fits the times (at least one), from 0 to 1; shape (moments,)."""
    at, (begins, ends) = _to_seconds(moments)[:, None], _time_bounds(times)
    later = TOLD_LATER * np.exp(-np.maximum(at - ends, 0.0) / SOON.total_seconds())
    best: Numbers = np.where(at < begins, 0.0, np.where(at < ends, 1.0, later)).max(axis=1)
    return best


def measure_distance_to_times(moments: Sequence[datetime], times: Sequence[TimeSpan]) -> Numbers:
    """Return how far each moment is from the nearest beginning or end of the times, in seconds; shape (moments,)."""
    nearest: Numbers = np.abs(_to_seconds(moments)[:, None] - np.concatenate(_time_bounds(times))).min(axis=1)
    return nearest


def mentions_time(content: str, at: datetime, times: Sequence[TimeSpan]) -> bool:
    """Return whether a text, said at this moment, mentions one of the times, but not by a much longer time."""
    begins, ends = _time_bounds(times)
    near = np.minimum(np.abs(begins - at.timestamp()), np.abs(ends - at.timestamp())) < ABOUT.total_seconds()
    told, told_ends = _read_bounds(content, at) if near.any() else _time_bounds(())
    if not told.size:
        return False
    begins, ends, theirs, end_theirs = begins[near], ends[near], told[:, None], told_ends[:, None]
    longest = 2 * np.maximum(ends - begins, DAY.total_seconds())
    return bool(np.any((theirs < ends) & (begins < end_theirs) & (end_theirs - theirs <= longest)))


def _read_bounds(content: str, at: datetime) -> tuple[Numbers, Numbers]:
    """Return the bounds of the times that a text names; those of a text that was read lately are known."""
    return _KNOWN.find((digest_text(content), at), lambda: _time_bounds(find_spans(content, at)))


def _time_bounds(times: Sequence[TimeSpan]) -> tuple[Numbers, Numbers]:
    return _to_seconds([span.begin for span in times]), _to_seconds([span.end for span in times])


def _to_seconds(moments: Sequence[datetime]) -> Numbers:
    return np.array([moment.timestamp() for moment in moments], dtype=np.float64)
