"""Vectors of the fresh tail, remembered: while workers lag, each question would embed the same texts again."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

#: About 3 MB of vectors.
MOST = 2048


class TailCache:
    """The vectors last embedded with questions, by unit and generation; the oldest are dropped.

    A unit's text never changes, and what is forgotten is no longer in any tail: nothing here can be out of date.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._vectors: OrderedDict[tuple[UUID, int], NDArray[np.float32]] = OrderedDict()

    def known(self, units: Iterable[UUID], generation: int) -> dict[UUID, NDArray[np.float32]]:
        """Return the vectors that are remembered of these units."""
        return {unit: self._vectors[unit, generation] for unit in units if (unit, generation) in self._vectors}

    def keep(self, vectors: Mapping[UUID, NDArray[np.float32]], generation: int) -> None:
        """Remember these vectors."""
        for unit, vector in vectors.items():
            self._vectors[unit, generation] = vector
        while len(self._vectors) > self._most:
            self._vectors.popitem(last=False)
