"""Runs the recency arm: prefers messages of the last minutes, where the question asks about them.

"What did I just say?" and "Why?" refer to the message before, with which they may share neither words nor much meaning.
The arm is bounded: it raises a few messages, the newest the most, and none after some minutes.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
from sqlalchemy import Select, bindparam, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from store.recall.filters import filter_conditions, happened_at
from store.recall.question import Question
from store.recall.rules import RECENT
from store.recall.state import ArmResult, RecallState, rank_by_scores
from store.schema import TIME, TURN, UNIT, in_bank
from store.sql_constants import inline

#: Most messages, and most turns that are searched for them.
MESSAGES = 8
#: Each older message counts this share of the next newer one.
OLDER = 0.7
#: Age at which a message's score has fallen to about a third, and age from which on it is not found.
SOON, WINDOW = timedelta(minutes=3), timedelta(minutes=15)

_MOST = inline(MESSAGES)


def _select_just_said() -> Select[UUID, datetime]:
    """Select the newest messages by the time they were said: an old conversation that is imported now is not recent.

    They are searched in the bank's newest turns, which are indexed by their position.
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
            unit.c.role.is_distinct_from(inline("assistant")),
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
    """The arm of recency: the newest messages of the last minutes that are not the assistant's."""

    name = RECENT
    weight = 0.2
    needs_vector = False

    async def find(self, _connection: AsyncConnection, state: RecallState) -> ArmResult:
        """Return the newest messages, the newest first; `prepare_search` has read them."""
        return rank_by_scores(
            {unit: score_newness(nth, state.now - at) for nth, (unit, at) in enumerate(state.just_said)}
        )


def build_recent_parameters(now: datetime, question: Question) -> Mapping[str, Any]:
    """Return the parameters of JUST_SAID, other than bank and filters.

    `until` allows for a caller's clock that is a little ahead of ours.
    """
    # The range is empty, so that no message is read, where recency is not asked about.
    since = now - WINDOW if question.wants_recent else now + SOON
    return {"since": since, "until": now + SOON}


def score_newness(nth: int, age: timedelta) -> float:
    """Return the score, from 0 to 1, of the nth newest message (counted from 0) of this age. Pure."""
    return float(OLDER**nth * np.exp(-max(age, timedelta(0)) / SOON))
