"""What is remembered of the fresh tail."""

from uuid import UUID

import numpy as np

from store.recall.tail_cache import TailCache

ONE = np.ones(4, dtype=np.float32)


def test_vectors_are_known_by_unit_and_generation() -> None:
    cache = TailCache()
    cache.keep({UUID(int=1): ONE}, generation=1)
    assert cache.known([UUID(int=1), UUID(int=2)], 1).keys() == {UUID(int=1)}
    assert cache.known([UUID(int=1)], 2) == {}


def test_the_oldest_are_dropped() -> None:
    cache = TailCache(most=3)
    for n in range(5):
        cache.keep({UUID(int=n): ONE}, 1)
    assert sorted(unit.int for unit in cache.known((UUID(int=n) for n in range(5)), 1)) == [2, 3, 4]
