"""The recency arm: prefers messages of the last minutes when the question asks about them.

Nothing is nearer to a question that follows upon it, and it may share neither word nor much meaning with it. It is
bounded: a few messages, the newest the most, and soon none.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
from sqlalchemy import Integer, Select, bindparam, literal_column, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from store.recall.filters import filter_conditions, happened_at
from store.recall.pool import CandidatePool
from store.recall.settings import RecallSettings
from store.recall.state import ArmResult, RecallState
from store.schema import TIME, TURN, UNIT, in_bank

#: Most messages, and most turns they are of.
MESSAGES = 8
#: Each older message counts this share of the next newer one.
OLDER = 0.7
#: After so long it counts a third, after so much longer nothing.
SOON, WINDOW = timedelta(minutes=3), timedelta(minutes=15)

_MOST = literal_column(str(MESSAGES), Integer)


def _select_just_said() -> Select[UUID, datetime]:
    """Select what was said last, by when it was said: old talk that is written now is not recent.

    The turns of a bank are indexed by their order.
    """
    turn, unit = TURN.alias("t"), UNIT.alias("u")
    newest = (
        select(turn.c.turn_id, turn.c.position)
        .where(in_bank(turn))
        .order_by(turn.c.position.desc())
        .limit(_MOST)
        .subquery("t")
    )
    said = (
        select(unit.c.unit_id, unit.c.seq, happened_at(unit).label("at"))
        .where(
            in_bank(unit),
            unit.c.turn_id == newest.c.turn_id,
            unit.c.seq.is_not(None),
            unit.c.role.is_distinct_from(literal_column("'assistant'")),
            filter_conditions(unit),
        )
        .order_by(unit.c.seq.desc())
        .limit(_MOST)
        .lateral("u")
    )
    return (
        select(said.c.unit_id, said.c.at)
        .join_from(newest, said, true())
        .where(said.c.at > bindparam("since", type_=TIME), said.c.at <= bindparam("until", type_=TIME))
        .order_by(said.c.at.desc(), newest.c.position.desc(), said.c.seq.desc())
        .limit(_MOST)
    )


JUST_SAID = _select_just_said()


class RecentArm:
    """The newest messages that are not the assistant's, while they are new."""

    name = "recent"

    def weight(self, settings: RecallSettings) -> float:
        """Return how much being the newest counts against a share of words found."""
        return settings.ranking.recent_weight

    async def find(self, _connection: AsyncConnection, state: RecallState) -> ArmResult:
        """Return the newest messages, the newest first; they were read with the other facts about the bank."""
        scores = {unit: score_newness(nth, state.now - at) for nth, (unit, at) in enumerate(state.just_said)}

        def view(pool: CandidatePool) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
            return np.array([scores.get(unit.unit_id, 0.0) for unit in pool.candidates], dtype=np.float64)

        return ArmResult(list(scores), [], view)


def recent_parameters(now: datetime, settings: RecallSettings) -> Mapping[str, Any]:
    """Return the parameters of JUST_SAID, beside the place and the filters.

    A caller's clock may be a little ahead of ours.
    """
    # Where the arm has no weight there is nothing to read.
    since = now - WINDOW if settings.ranking.recent_weight else now + SOON
    return {"since": since, "until": now + SOON}


def score_newness(nth: int, age: timedelta) -> float:
    """Return how new the nth newest message is, counted from 0, from 0 to 1. Pure."""
    return float(OLDER**nth * np.exp(-max(age, timedelta(0)) / SOON))
