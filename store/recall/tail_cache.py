"""Caches the vectors of the fresh tail, so that questions embed each text once while workers lag."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from store.recall.tail import Fresh

#: Most vectors, about 3 MB.
MOST = 2048


class TailCache:
    """A cache of the vectors last embedded with questions, by unit, text and generation; the oldest are dropped.

    No entry can be out of date: a corrected text has another key, and a forgotten unit is in no tail.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._vectors: OrderedDict[tuple[UUID, int, int], NDArray[np.float32]] = OrderedDict()

    def known(self, tail: Iterable[Fresh], generation: int) -> dict[UUID, NDArray[np.float32]]:
        """Return the cached vectors of these units and texts."""
        found = ((fresh.unit_id, self._vectors.get(_cache_key(fresh, generation))) for fresh in tail)
        return {unit: vector for unit, vector in found if vector is not None}

    def keep(self, tail: Iterable[Fresh], vectors: Mapping[UUID, NDArray[np.float32]], generation: int) -> None:
        """Cache the vectors of these units."""
        for fresh in tail:
            self._vectors[_cache_key(fresh, generation)] = vectors[fresh.unit_id]
        while len(self._vectors) > self._most:
            self._vectors.popitem(last=False)


def _cache_key(fresh: Fresh, generation: int) -> tuple[UUID, int, int]:
    """Return the key of a text's vector; it has the text's hash, not its words."""
    return fresh.unit_id, hash(fresh.content), generation
