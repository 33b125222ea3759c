"""The recency arm: prefers messages of the last minutes when the question asks about them.

Nothing is nearer to a question that follows upon it, and it may share neither word nor much meaning with it. It is
bounded: a few messages, the newest the most, and soon none.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from sqlalchemy.ext.asyncio import AsyncConnection

from store.recall.filters import filter_text
from store.recall.pool import CandidatePool
from store.recall.settings import RecallSettings
from store.recall.state import ArmResult, RecallState

#: Most messages, and most turns they are of.
MESSAGES = 8
#: Each older message counts this share of the next newer one.
OLDER = 0.7
#: After so long it counts a third, after so much longer nothing.
SOON, WINDOW = timedelta(minutes=3), timedelta(minutes=15)

# What was said by when it was said: old talk that is written now is not recent. The turns of a bank are indexed by
# their order.
JUST_SAID = f"""
    select u.unit_id, u.at
      from (select t.turn_id, t.position from afterturn.turn_t t
             where t.host_id = :host and t.bank_id = :bank
             order by t.position desc limit {MESSAGES}) t,
           lateral (select u.unit_id, u.seq, coalesce(u.occurred_start, u.event_date) as at
                      from afterturn.agent_memory_unit_t u
                     where u.host_id = :host and u.bank_id = :bank and u.turn_id = t.turn_id and u.seq is not null
                       and u.role is distinct from 'assistant' and {filter_text("u")}
                     order by u.seq desc limit {MESSAGES}) u
     where u.at > :since and u.at <= :until
     order by u.at desc, t.position desc, u.seq desc
     limit {MESSAGES}"""  # noqa: S608 - put together from constants


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
