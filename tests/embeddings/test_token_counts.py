"""Counts of tokens are remembered, not the texts."""

import gc
from collections.abc import Sequence

from embeddings.token_counts import TokenCounts


class Counter:
    """Counts words, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def count(self, texts: Sequence[str]) -> list[int]:
        self.asked += texts
        return [len(text.split()) for text in texts]


def test_a_text_is_counted_once() -> None:
    counter = Counter()
    counts = TokenCounts(counter.count)
    assert counts.count_tokens(["one two", "three", "one two"]) == [2, 1, 2]
    assert counts.count_tokens(["three", "four five six", "three", "one two"]) == [1, 3, 1, 2]
    assert counter.asked == ["one two", "three", "four five six"]
    assert counts.count_tokens([]) == []


def test_those_that_came_last_are_remembered() -> None:
    counter = Counter()
    counts = TokenCounts(counter.count, most=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        counts.count_tokens([text])
    assert counter.asked == ["a", "b", "c", "b"]


def test_no_text_is_kept() -> None:
    counts = TokenCounts(lambda texts: [1 for _ in texts])
    counts.count_tokens(["the parrot is called Marmaduke"])
    gc.collect()
    kept = [one for one in gc.get_referents(*gc.get_referents(counts)) if isinstance(one, str)]
    assert not any("Marmaduke" in one for one in kept)
    assert "Marmaduke" not in repr(vars(counts))
