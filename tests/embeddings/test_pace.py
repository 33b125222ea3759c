"""The running measure of the model's pace."""

import pytest

from embeddings.pace import TokenPace


def test_nothing_takes_no_time() -> None:
    assert TokenPace(256).estimate_ms([]) == 0


def test_the_estimate_comes_to_what_was_measured() -> None:
    pace = TokenPace(256)
    texts = ["x" * 100] * 4
    for _ in range(60):
        pace.learn(texts, 50.0)
    assert pace.estimate_ms(texts) == pytest.approx(50.0, rel=0.01)


def test_text_beyond_the_window_costs_nothing() -> None:
    pace = TokenPace(256)
    assert pace.estimate_ms(["x" * 5000]) == pace.estimate_ms(["x" * 50000])


def test_one_slow_run_does_not_overturn_the_measure() -> None:
    pace = TokenPace(256)
    before = pace.estimate_ms(["hello"])
    pace.learn(["hello"], before * 100)
    assert pace.estimate_ms(["hello"]) < before * 1.3


def test_what_stays_slow_is_believed() -> None:
    pace = TokenPace(256)
    for _ in range(30):
        pace.learn(["hello"], 100.0)
    assert pace.estimate_ms(["hello"]) == pytest.approx(100.0, rel=0.1)


def test_texts_together_cost_less_than_one_after_the_other() -> None:
    pace = TokenPace(256)
    assert pace.estimate_ms(["hello"] * 4) < 4 * pace.estimate_ms(["hello"])
