"""An answer never passes its budget of tokens, and what it is made of keeps its order."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from embeddings.errors import ModelMissing
from store.memory.directives import Directive
from store.recall.budget import cut_to_budget, select_directives, select_fitting
from store.recall.query import Recalled
from store.recall.settings import RecallSettings
from tests.store.conftest import NOON

sizes = st.lists(st.integers(0, 40), max_size=12)


@dataclass
class Counting:
    """An embedder whose tokens are characters; a broken one has a tokenizer that cannot be had."""

    broken: bool = False
    name: str = "counting"
    dimensions: int = 384
    generation: int = 1

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.zeros((len(texts), self.dimensions), dtype=np.float32)

    def estimate_ms(self, texts: Sequence[str]) -> float:
        return float(len(texts))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        if self.broken:
            raise ModelMissing("no tokenizer")
        return [len(text) for text in texts]


def item(number: int, text: str) -> Recalled:
    return Recalled(UUID(int=number), "experience", text, 1.0 - number / 100, "s", "t", ("t",), "user", None, NOON, ())


def items(of: Sequence[int]) -> list[Recalled]:
    return [item(number, "x" * size) for number, size in enumerate(of)]


@given(sizes, st.integers(-5, 120))
def test_what_fits_is_taken_in_order_and_nothing_that_fits_is_left_out(of: list[int], room: int) -> None:
    kept = select_fitting(of, room)
    assert kept == sorted(set(kept))
    assert sum(of[index] for index in kept) <= max(room, 0)
    for index in set(range(len(of))) - set(kept):
        assert sum(of[other] for other in kept if other < index) + of[index] > room


@given(sizes, st.integers(1, 120))
async def test_the_texts_of_an_answer_never_pass_the_budget(of: list[int], budget: int) -> None:
    answer = await cut_to_budget(items(of), budget, {}, Counting())
    assert sum(one.tokens or 0 for one in answer) == sum(len(one.text) for one in answer) <= budget
    assert [one.unit_id.int for one in answer if not one.cut] == select_fitting(of, budget)
    assert await cut_to_budget(items(of), None, {}, Counting()) == tuple(items(of))


@given(sizes, st.none() | st.integers(1, 120), st.integers(0, 60), st.floats(0, 1))
async def test_directives_stay_within_their_share_and_leave_the_rest(
    of: list[int], budget: int | None, tokens: int, share: float
) -> None:
    settings = RecallSettings(directive_tokens=tokens, directive_share=share)
    laid_down = [Directive(UUID(int=n), "n", "x" * size, -n) for n, size in enumerate(of)]
    kept, used = await select_directives(laid_down, budget, settings, Counting())
    assert used == sum(len(f"{one.name}: {one.content}") for one in kept) <= tokens
    assert [one.priority for one in kept] == sorted((one.priority for one in kept), reverse=True)
    if budget is not None:
        assert used <= budget * share
        found = await cut_to_budget(items(of), budget - used, {}, Counting())
        assert used + sum(one.tokens or 0 for one in found) <= budget


async def test_without_a_tokenizer_four_characters_are_a_token() -> None:
    answer = await cut_to_budget(items([8, 9]), 4, {}, Counting(broken=True))
    assert [(one.unit_id.int, one.tokens) for one in answer] == [(0, 2)]
    assert len(await cut_to_budget(items([8, 8]), 4, {}, Counting(broken=True))) == 2


class Weights(dict[str, float]):
    """Weights that note the threads in which they are looked up."""

    def __init__(self, weights: dict[str, float]) -> None:
        super().__init__(weights)
        self.threads = set[int]()

    def __getitem__(self, word: str) -> float:
        self.threads.add(threading.get_ident())
        return super().__getitem__(word)


@pytest.mark.parametrize("room", [10_000, 40])
async def test_long_texts_are_cut_off_the_event_loop(room: int) -> None:
    weights, text = Weights({"lemon": 1.0}), "The lemon is here. " * 5_000
    assert await cut_to_budget([item(1, text), item(2, text)], room, weights, Counting())
    assert weights.threads
    assert threading.get_ident() not in weights.threads
