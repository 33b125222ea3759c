"""An answer never passes its budget of tokens, and what it is made of keeps its order."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from afterturn_client.contract.knowledge import Directive
from afterturn_client.reference import FrameForm
from hypothesis import given
from hypothesis import strategies as st

from embeddings.prompt_tokens import ESTIMATE
from producers.service.framing import frame_message
from store.recall.budget import FIRST, cut_to_budget, select_directives, select_fitting
from store.recall.printing import AnswerPrinter, describe_directive, describe_unit
from store.recall.query import Recalled
from store.recall.settings import RecallSettings
from tests.store.conftest import NOON
from tests.tables import each_row

sizes = st.lists(st.integers(0, 40), max_size=12)
FORMS: list[FrameForm] = ["lines", "json"]


class Characters:
    """A counter whose tokens are characters."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text) for text in texts]


COUNTER = Characters()


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


@pytest.mark.parametrize("form", FORMS)
@given(
    told=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3) | st.integers(0, 1000)), max_size=12),
    budget=st.integers(1, 1200),
    laid_down=sizes,
)
async def test_the_block_of_an_answer_never_passes_the_budget(
    form: FrameForm, told: list[tuple[int, int]], budget: int, laid_down: list[int]
) -> None:
    settings = RecallSettings(directive_tokens=100)
    directives = [
        Directive(directive_id=UUID(int=n), name="n", content="x" * size, priority=-n)
        for n, size in enumerate(laid_down)
    ]
    standing, first = await select_directives(directives, budget, settings, form, COUNTER)
    found = [replace(item(n, "x" * size), occurred_at=NOON + timedelta(days=day)) for n, (size, day) in enumerate(told)]
    kept, used = await cut_to_budget(found, budget - first, {}, AnswerPrinter.of(form, found), COUNTER)
    block = frame_message(
        [describe_unit(one) for one in kept], [describe_directive(one) for one in standing], form=form
    )
    assert (block is None) == (not kept and not standing)
    assert len(block["content"] if block else "") <= first + used <= budget
    assert [one.priority for one in standing] == sorted((one.priority for one in standing), reverse=True)


@each_row("room", range(90, 420, 6))
async def test_lines_that_tell_the_time_of_day_because_all_are_of_one_day_stay_within_the_budget(room: int) -> None:
    found = [item(number, "We fly on Friday") for number in range(12)]
    found.append(replace(found[0], unit_id=UUID(int=12), text="We fly " * 90, occurred_at=NOON + timedelta(days=40)))
    kept, used = await cut_to_budget(found, room, {}, AnswerPrinter.of("lines", found), ESTIMATE)
    block = frame_message([describe_unit(one) for one in kept])
    [sent] = ESTIMATE.count_tokens([block["content"] if block else ""])
    assert sent <= used <= room


async def test_passages_after_the_first_ten_are_a_third_as_long() -> None:
    told = "The lemon is here. " * 40
    found = [item(number, f"{number} {told}") for number in range(30)]
    kept, _ = await cut_to_budget(found, 20_000, {"lemon": 1.0}, AnswerPrinter.of("lines", found), COUNTER)
    assert [160 < len(one.text) <= 480 for one in kept] == [True] * FIRST + [False] * (len(kept) - FIRST)
    assert all(one.cut and "The lemon is here." in one.text for one in kept)
    assert len(kept) == 30


@given(sizes)
async def test_without_a_budget_every_unit_is_whole_and_counted(of: list[int]) -> None:
    kept, used = await cut_to_budget(items(of), None, {}, AnswerPrinter.of("lines", items(of)), COUNTER)
    assert [(one.unit_id, one.text) for one in kept] == [(one.unit_id, one.text) for one in items(of)]
    block = frame_message([describe_unit(one) for one in kept])
    assert len(block["content"] if block else "") <= used


async def test_a_passage_is_made_smaller_where_a_whole_one_has_no_room() -> None:
    long = item(0, "The lemon is here. " * 40)
    [kept], used = await cut_to_budget([long], 320, {"lemon": 1.0}, AnswerPrinter.of("lines", [long]), COUNTER)
    assert kept.cut
    assert "The lemon is here." in kept.text
    assert used <= 320
    assert await cut_to_budget([long], 150, {"lemon": 1.0}, AnswerPrinter.of("lines", [long]), COUNTER) == ((), 0)


class Weights(dict[str, float]):
    """Weights that note the threads in which they are looked up."""

    def __init__(self, weights: dict[str, float]) -> None:
        super().__init__(weights)
        self.threads = set[int]()

    def __getitem__(self, word: str) -> float:
        self.threads.add(threading.get_ident())
        return super().__getitem__(word)


@pytest.mark.parametrize("room", [10_000, 290])
async def test_long_texts_are_cut_off_the_event_loop(room: int) -> None:
    weights, text = Weights({"lemon": 1.0}), "The lemon is here. " * 5_000
    long = [item(1, text), item(2, text)]
    assert (await cut_to_budget(long, room, weights, AnswerPrinter.of("lines", long), COUNTER))[0]
    assert weights.threads
    assert threading.get_ident() not in weights.threads
