"""What is remembered of the fresh tail."""

from uuid import UUID

import numpy as np

from store.recall.meaning import TailCache
from store.recall.tail import UnembeddedText

ONE = np.ones(4, dtype=np.float32)


def fresh(number: int, content: str = "said") -> UnembeddedText:
    return UnembeddedText(UUID(int=number), content)


def test_vectors_are_known_by_unit_and_generation() -> None:
    cache = TailCache()
    cache.keep([fresh(1)], {UUID(int=1): ONE}, generation=1)
    assert cache.known([fresh(1), fresh(2)], 1).keys() == {UUID(int=1)}
    assert cache.known([fresh(1)], 2) == {}


def test_the_vector_of_a_corrected_text_is_not_taken_for_that_of_the_new_one() -> None:
    cache = TailCache()
    cache.keep([fresh(1)], {UUID(int=1): ONE}, 1)
    assert cache.known([fresh(1, "corrected")], 1) == {}


def test_the_oldest_are_dropped() -> None:
    cache = TailCache(most=3)
    for n in range(5):
        cache.keep([fresh(n)], {UUID(int=n): ONE}, 1)
    assert sorted(unit.int for unit in cache.known(map(fresh, range(5)), 1)) == [2, 3, 4]
