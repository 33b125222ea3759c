"""The time arm: units said in the time a question names, or that mention that time."""

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
from store.recall.settings import RecallSettings
from store.recall.state import ArmResult, RecallState
from store.recall.stored_vectors import measure_distance, select_vector
from store.schema import TIME, UNIT, in_bank
from store.text.times import DAY, TimeSpan, find_spans

Numbers = NDArray[np.float64]

#: Units said in the asked time that are compared, the nearest in meaning.
UNITS = 40
#: Said within days: a longer time is asked for by the words of its month or year.
MOST_DAYS = 31
#: Most units of one day that are compared.
OF_A_DAY = 200
#: Messages of the days after an event often report it; their score falls with the distance.
TOLD_LATER = 0.8
SOON = timedelta(days=7)
#: Texts, the nearest in time, that are read for the times they tell of, and no more of each than this.
TEXTS = 32
CHARACTERS = 1000
#: A text tells of times so long before and after it is said.
ABOUT = timedelta(days=400)


def _select_said() -> Select[UUID]:
    """Select what was said on the asked days, the nearest to the question first.

    Each day's by the index `unit_by_time`; the newest of a day that has too many.
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
    """Units said in the asked time or telling of it; where a question names no time there is nothing to do."""

    name = "time"

    def weight(self, settings: RecallSettings) -> float:
        """Return how much being of the right time counts against a share of words found."""
        return settings.ranking.time_weight

    async def find(self, connection: AsyncConnection, state: RecallState) -> ArmResult:
        """Find the units said on the asked days, the nearest in meaning first."""
        if not state.times or not state.settings.ranking.time_weight:
            return ArmResult([], [], lambda pool: np.zeros(len(pool)))
        days = split_days(state.times)
        arguments = {
            "host": state.host,
            "bank": state.bank,
            "of_a_day": OF_A_DAY,
            "generation": state.generation,
            "vector": state.vector,
            "begins": [day.begin for day in days],
            "ends": [day.end for day in days],
            "units": UNITS,
            **state.filters,
        }
        found: list[UUID] = [row.unit_id for row in await fetch_rows(connection, SAID, arguments)] if days else []
        times = state.times
        return ArmResult(found, [], lambda pool: score_timeliness(pool, times))


def split_days(times: Sequence[TimeSpan]) -> list[TimeSpan]:
    """Return the days of these times, the last of each cut where the time ends; none where they are too many."""
    days = [
        TimeSpan(begin, min(begin + DAY, span.end))
        for span in times
        if span.length <= MOST_DAYS * DAY
        for begin in (span.begin + n * DAY for n in range(-(-span.length // DAY)))
    ]
    return days if len(days) <= MOST_DAYS else []


def score_timeliness(pool: CandidatePool, times: Sequence[TimeSpan]) -> Numbers:
    """Return how well each unit fits the asked times, from 0 to 1; shape (len(pool),).

    1 for what was said in one of them or tells of it, less for what was said in the days after.
    """
    moments = [unit.occurred_at for unit in pool.candidates]
    scores, away = score_moments(moments, times), distance_to_times(moments, times)
    for index in [int(at) for at in np.argsort(away, kind="stable") if scores[at] < 1][:TEXTS]:
        unit = pool.candidates[index]
        if tells_of(unit.text[:CHARACTERS], unit.occurred_at, times):
            scores[index] = 1.0
    return scores


def score_moments(moments: Sequence[datetime], times: Sequence[TimeSpan]) -> Numbers:
    """Return how well what was said at each moment fits the times (one at least), from 0 to 1; shape (moments,)."""
    at, (begins, ends) = _to_seconds(moments)[:, None], _time_bounds(times)
    later = TOLD_LATER * np.exp(-np.maximum(at - ends, 0.0) / SOON.total_seconds())
    best: Numbers = np.where(at < begins, 0.0, np.where(at < ends, 1.0, later)).max(axis=1)
    return best


def distance_to_times(moments: Sequence[datetime], times: Sequence[TimeSpan]) -> Numbers:
    """Return how far each moment is from the nearest beginning or end of the times, in seconds; shape (moments,)."""
    nearest: Numbers = np.abs(_to_seconds(moments)[:, None] - np.concatenate(_time_bounds(times))).min(axis=1)
    return nearest


def tells_of(content: str, at: datetime, times: Sequence[TimeSpan]) -> bool:
    """Say whether a text, said at this moment, speaks of one of the times, and not of a much longer one."""
    begins, ends = _time_bounds(times)
    near = np.minimum(np.abs(begins - at.timestamp()), np.abs(ends - at.timestamp())) < ABOUT.total_seconds()
    told = find_spans(content, at) if near.any() else []
    if not told:
        return False
    begins, ends, (theirs, end_theirs) = begins[near], ends[near], (bound[:, None] for bound in _time_bounds(told))
    longest = 2 * np.maximum(ends - begins, DAY.total_seconds())
    return bool(np.any((theirs < ends) & (begins < end_theirs) & (end_theirs - theirs <= longest)))


def _time_bounds(times: Sequence[TimeSpan]) -> tuple[Numbers, Numbers]:
    return _to_seconds([span.begin for span in times]), _to_seconds([span.end for span in times])


def _to_seconds(moments: Sequence[datetime]) -> Numbers:
    return np.array([moment.timestamp() for moment in moments], dtype=np.float64)
