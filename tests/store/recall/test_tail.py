"""How much of the fresh tail is read with a question."""

from collections.abc import Sequence
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from store.recall.tail import LEAST, UnembeddedText, select_affordable
from tests.tables import each_row

tails = st.lists(st.text(max_size=30), max_size=20).map(
    lambda texts: [UnembeddedText(UUID(int=n), text) for n, text in enumerate(texts)]
)


def _ms(texts: Sequence[str]) -> float:
    return float(sum(len(text) for text in texts))


@given(tails, st.floats(0, 500))
def test_the_beginning_of_the_tail_is_read_within_the_time(tail: list[UnembeddedText], budget: float) -> None:
    read = select_affordable(tail, "why", budget, _ms)
    assert list(read) == tail[: len(read)]
    spent = _ms(["why", *(fresh.content for fresh in read)])
    assert spent <= budget or len(read) <= LEAST


@given(tails, st.floats(0, 500))
def test_nothing_that_would_fit_is_left_out(tail: list[UnembeddedText], budget: float) -> None:
    read = select_affordable(tail, "why", budget, _ms)
    if len(read) < len(tail):
        more = tail[: len(read) + 1]
        assert _ms(["why", *(fresh.content for fresh in more)]) > budget


@given(tails)
def test_the_newest_are_always_read(tail: list[UnembeddedText]) -> None:
    assert list(select_affordable(tail, "why", 0, _ms)[:LEAST]) == tail[:LEAST]


@each_row("pace_ms, read", [(0.1, 100), (0.25, 79), (1, 32), (4, 32), (5, 29), (200, LEAST)])
def test_a_slower_machine_takes_more_time_for_enough_texts_and_no_more_than_the_most(pace_ms: float, read: int) -> None:
    tail = [UnembeddedText(UUID(int=n), "x") for n in range(100)]
    assert len(select_affordable(tail, "why", None, lambda texts: pace_ms * len(texts))) == read


def test_while_others_wait_for_the_model_a_tail_has_no_more_than_the_usual_time() -> None:
    tail = [UnembeddedText(UUID(int=n), "x") for n in range(100)]
    assert len(select_affordable(tail, "why", None, lambda texts: 5 + 3 * len(texts))) == 4
