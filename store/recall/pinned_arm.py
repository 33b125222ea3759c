"""Runs the arm of pinned units, which come with every answer.

Messages of a turn whose metadata hold `pinned: "true"` are pinned, and units that a caller pins. Both are recorded in
the log, so a replay pins the same units.
"""

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, FromClause, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.recall.filters import has_not_expired
from store.recall.pool import CandidatePool
from store.recall.state import ArmResult, RecallState
from store.schema import UNIT, in_bank
from store.sql_constants import inline

#: Most pinned units that are read, the newest; filters apply to them, and the best few come first.
MOST = 50


def is_pinned(unit: FromClause) -> ColumnElement[bool]:
    """Return the condition that a unit is pinned, written exactly as the predicate of the index `unit_pinned`."""
    pinned: ColumnElement[bool] = unit.c["metadata"][inline("pinned")].astext == inline("true")
    return pinned


_UNIT = UNIT.alias("u")
# The index is empty for a bank without pins. There this must cost nothing, so the other filters are applied later.
PINNED = (
    select(_UNIT.c.unit_id)
    .where(in_bank(_UNIT), _UNIT.c.active, is_pinned(_UNIT), has_not_expired(_UNIT))
    .order_by(_UNIT.c.position.desc())
    .limit(inline(MOST))
)


def limit_pinned(room: int) -> int:
    """Return the most units or tokens of an answer that pinned units may take: half."""
    return room // 2


class PinnedArm:
    """The arm of pins: pinned units, for every question."""

    name = "pinned"
    #: They are put first after all rules, so that no session is raised by pins.
    weight = 0.0
    needs_vector = False

    async def find(self, _connection: AsyncConnection, state: RecallState) -> ArmResult:
        """Return the pinned units, which `prepare_search` has read."""
        return ArmResult(state.pinned, [], _score_pinned)


def _score_pinned(pool: CandidatePool) -> NDArray[np.float64]:
    return np.array([unit.pinned for unit in pool.candidates], dtype=np.float64)
