"""The arm of pinned units: they come with every answer.

What is said in a turn whose metadata hold `pinned: "true"` is pinned, and so is a unit that a caller pins. Both stand
in the log, so nothing can be pinned that a replay would not pin again.
"""

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, FromClause, Integer, bindparam, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.recall.filters import lasts
from store.recall.pool import CandidatePool
from store.recall.settings import RecallSettings
from store.recall.state import ArmResult, RecallState
from store.schema import UNIT, in_bank

#: The newest pinned units that are compared; filters apply to them, and the best few come first.
MOST = 50


def is_pinned(unit: FromClause) -> ColumnElement[bool]:
    """Say that a unit is pinned, as the predicate of the index `unit_pinned` does, to the letter."""
    pinned: ColumnElement[bool] = unit.c["metadata"][literal_column("'pinned'")].astext == literal_column("'true'")
    return pinned


_UNIT = UNIT.alias("u")
# Of a bank where nothing is pinned the index is empty: it must cost nothing, so that nothing else is asked here.
PINNED = (
    select(_UNIT.c.unit_id)
    .where(in_bank(_UNIT), _UNIT.c.active, is_pinned(_UNIT), lasts(_UNIT))
    .order_by(_UNIT.c.position.desc())
    .limit(bindparam("pinned", type_=Integer))
)


def most_first(room: int) -> int:
    """Return the most that pinned units may take of an answer, in units or tokens: half of it."""
    return room // 2


class PinnedArm:
    """Pinned units, for every question; they were read with the other facts about the bank."""

    name = "pinned"

    def weight(self, _settings: RecallSettings) -> float:
        """They are put first by the rule of the same name, after all others: no session is raised by its pins."""
        return 0.0

    async def find(self, _connection: AsyncConnection, state: RecallState) -> ArmResult:
        """Return the pinned units; nothing is read."""
        return ArmResult(state.pinned, [], _score_pinned)


def _score_pinned(pool: CandidatePool) -> NDArray[np.float64]:
    return np.array([unit.pinned for unit in pool.candidates], dtype=np.float64)
