"""A long text is told by the passage that answers best: one piece of it, of its size, marked where it is cut."""

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.recall.passages import CHARACTERS_PER_TOKEN, MARK, TOKENS, cut_passage
from store.recall.query import RecallQuery
from store.recall.settings import RecallSettings
from tests.store.recall.conftest import Memory

FILLER = "Nothing of note happened on that day. " * 40
ROOM = TOKENS * CHARACTERS_PER_TOKEN

pieces = st.lists(st.sampled_from(["lemon ", "Plum. ", "no\n", "x", "柠檬。", "Why? ", "é", " " * 3]), max_size=400)


def test_a_text_that_has_room_is_told_whole() -> None:
    text = "A lemon, and no more."
    assert cut_passage(text, {"lemon": 1.0}) is text


@pytest.mark.parametrize("text", [f"{FILLER}The happy lemon is here. {FILLER}", FILLER + "The happy lemon is here."])
def test_the_passage_holds_the_best_sentence_with_what_stands_around_it(text: str) -> None:
    passage = cut_passage(text, {"happi": 1.0, "lemon": 2.0})
    assert "The happy lemon is here." in passage
    assert "Nothing of note" in passage
    assert passage.startswith(MARK)
    assert passage.endswith(MARK) == text.endswith(FILLER)
    assert len(passage) <= ROOM + 4


def test_the_rarer_word_decides() -> None:
    text = f"A day in May. {FILLER} The lemon. {FILLER}"
    assert "lemon" in cut_passage(text, {"day": 0.1, "may": 0.2, "lemon": 3.0})


@given(
    pieces, st.dictionaries(st.sampled_from(["lemon", "plum", "柠檬", "i", ""]), st.floats(0, 5)), st.integers(1, 60)
)
def test_a_passage_is_a_piece_of_its_text_and_no_longer_than_it_may_be(
    parts: list[str], weights: dict[str, float], tokens: int
) -> None:
    text = "".join(parts)
    passage = cut_passage(text, weights, tokens)
    if passage != text:
        assert passage.removeprefix(f"{MARK} ").removesuffix(f" {MARK}") in text
        assert len(passage) <= tokens * CHARACTERS_PER_TOKEN + 4


async def test_an_answer_without_a_size_is_passages_and_one_of_units_is_whole(memory: Memory) -> None:
    long = f"{FILLER}The ferry to the island leaves at seven. {FILLER}"
    await memory.say(long, "The ferry was late.")
    asked = RecallQuery("home", "When does the ferry leave?")
    await memory.ask(asked.text)
    assert memory.recaller is not None
    answer = await memory.recaller.recall(memory.host, asked)
    passage = next(one for one in answer.items if one.cut)
    assert "The ferry to the island leaves at seven." in passage.text
    assert sum(one.tokens or 0 for one in answer.items) < answer.tokens <= RecallSettings().answer_tokens
    whole = await memory.ask(asked.text, k=5)
    assert [one.cut for one in whole.items] == [False, False]
    assert long in [one.text for one in whole.items]


async def test_k_bounds_the_passages_and_a_small_budget_holds_the_best_of_one(memory: Memory) -> None:
    await memory.say(f"{FILLER}The ferry leaves at seven. {FILLER}")
    [small] = (await memory.ask("When does the ferry leave at seven?", max_tokens=80)).items
    assert small.cut
    assert small.tokens is not None
    assert 0 < small.tokens <= 80
    await memory.say(*(f"The ferry no. {n} is late." for n in range(5)))
    assert len((await memory.ask("When does the ferry leave?", k=2, max_tokens=500)).items) == 2


_UNDER_A_SEED = """
from store.recall.passages import cut_passage
names = [f"word{n}x" for n in range(12)]
weights = {name: 0.1 * (n + 1) for n, name in enumerate(names)}
swapped = {f"other{n}x": weight for n, weight in enumerate(weights.values())}
said = " ".join(weights) + ". " + "Nothing is said here at all. " * 20 + " ".join(reversed(swapped)) + "."
print(cut_passage(said, {**weights, **swapped}, 30))
"""


def test_a_passage_is_the_same_in_every_process() -> None:
    """A set of words has another order under each seed of hashes, and so had the rounding of its sum."""

    def cut(seed: int) -> str:
        run = [sys.executable, "-P", "-c", _UNDER_A_SEED]
        return subprocess.run(
            run, env={**os.environ, "PYTHONHASHSEED": str(seed)}, capture_output=True, text=True, check=True
        ).stdout

    assert len({cut(seed) for seed in range(4)}) == 1
