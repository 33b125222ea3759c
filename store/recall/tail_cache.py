"""A cache of the fresh tail's vectors: while workers lag, questions embed each text once."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from store.recall.tail import Fresh

#: About 3 MB of vectors.
MOST = 2048


class TailCache:
    """The vectors last embedded with questions, by unit, text and generation; the oldest are dropped.

    A text that was corrected is another, and what is forgotten is no longer in any tail: nothing here can be out of
    date.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._vectors: OrderedDict[tuple[UUID, int, int], NDArray[np.float32]] = OrderedDict()

    def known(self, tail: Iterable[Fresh], generation: int) -> dict[UUID, NDArray[np.float32]]:
        """Return the vectors that are remembered of these units as they read now."""
        found = ((fresh.unit_id, self._vectors.get(_cache_key(fresh, generation))) for fresh in tail)
        return {unit: vector for unit, vector in found if vector is not None}

    def keep(self, tail: Iterable[Fresh], vectors: Mapping[UUID, NDArray[np.float32]], generation: int) -> None:
        """Remember the vectors of these units."""
        for fresh in tail:
            self._vectors[_cache_key(fresh, generation)] = vectors[fresh.unit_id]
        while len(self._vectors) > self._most:
            self._vectors.popitem(last=False)


def _cache_key(fresh: Fresh, generation: int) -> tuple[UUID, int, int]:
    """Return what a vector is remembered under: of the text only its hash, not the words."""
    return fresh.unit_id, hash(fresh.content), generation
