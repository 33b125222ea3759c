"""Scoring by meaning: a message in the light of its neighbours."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from store.recall.dense import SAME, SHORT, Products, compute_context_cosines, compute_context_weights, compute_products


def _beside(of: Products, share: float) -> NDArray[np.float64]:
    shares = np.full(len(of.known), share)
    return compute_context_cosines(of, shares, shares)


seeds = st.integers(0, 2**32 - 1)


def _units(seed: int, count: int) -> NDArray[np.float32]:
    vectors = np.random.default_rng(seed).normal(size=(count, 8)).astype(np.float32)
    unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


@given(seeds, st.floats(0, 1))
def test_mixing_when_asked_is_storing_the_mixture(seed: int, context: float) -> None:
    question, own, before, after = _units(seed, 4)
    mixed = own + np.float32(context) * (before + after)
    expected = max(0.0, float(question @ (mixed / np.linalg.norm(mixed))))
    assert _beside(compute_products(question, own[None], before[None], after[None]), context) == pytest.approx(
        [expected], abs=1e-5
    )


@given(seeds)
def test_scores_lie_between_nothing_and_one(seed: int) -> None:
    vectors = _units(seed, 31)
    scores = _beside(compute_products(vectors[0], vectors[1:11], vectors[11:21], vectors[21:31]), 0.25)
    assert ((scores >= 0) & (scores <= 1 + 1e-6)).all()


def test_what_has_no_vector_scores_nothing() -> None:
    question, beside = _units(1, 2)
    nothing = np.zeros((1, 8), dtype=np.float32)
    assert _beside(compute_products(question, nothing, beside[None], question[None]), 0.25).tolist() == [0]


def test_a_message_without_neighbours_is_itself() -> None:
    question, own = _units(2, 2)
    nothing = np.zeros((1, 8), dtype=np.float32)
    score = _beside(compute_products(question, own[None], nothing, nothing), 0.25)
    assert score == pytest.approx([max(0.0, float(question @ own))], abs=1e-6)


def test_a_pool_of_nobody_has_no_scores() -> None:
    nobody = np.zeros((0, 8), dtype=np.float32)
    assert _beside(compute_products(_units(1, 1)[0], nobody, nobody, nobody), 0.25).shape == (0,)


def test_the_shorter_a_message_the_more_it_leans_on_what_speaks_of_the_same() -> None:
    sizes = np.array([10 * SHORT, SHORT, SHORT / 1.1, 1])
    between = np.full((4, 3), SAME)
    of = Products(np.zeros((4, 3)), between, np.ones((4, 3), dtype=np.bool_))
    assert compute_context_weights(of, sizes).tolist() == [[1, 1], [1, 1], [1.1, 1.1], [2, 2]]


def test_a_short_message_leans_no_more_than_a_long_one_on_what_speaks_of_something_else() -> None:
    of = Products(np.zeros((1, 3)), np.array([[0.9, 0.1, 0.9]]), np.ones((1, 3), dtype=np.bool_))
    assert compute_context_weights(of, np.array([1])).tolist() == [[2, 1]]
