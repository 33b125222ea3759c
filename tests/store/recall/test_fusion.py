"""The order of an answer: the same whatever came first, and an arm that fails is as an arm that is not there."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from uuid import UUID, uuid5

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from store.recall.arms import score_pool
from store.recall.dense import compute_products
from store.recall.fusion import fuse_scores
from store.recall.pool import Candidate, CandidatePool
from store.recall.question import parse_question
from store.recall.state import ArmResult
from tests.store.conftest import NOON

SPACE = UUID(int=3)
NAMES = ("dense", "lexical", "time")
WEIGHTS = {"dense": 0.75, "lexical": 1.0, "time": 0.15}
TEXTS = ("I moved in May.", "Why?", "We talk of boats, and of 3 more.", "x " * 150)

Scores = NDArray[np.float64]
units = st.lists(st.tuples(st.sampled_from(TEXTS), st.sampled_from("ab"), *[st.floats(0, 1)] * 3), max_size=10)


def candidate(number: int, text: str, session: str) -> Candidate:
    return Candidate(
        unit_id=UUID(int=number),
        kind="experience",
        text=text,
        whole=True,
        session_id=uuid5(SPACE, session),
        session_name=session,
        turn_name=f"t{number}",
        seq=number,
        role="user" if number % 2 else "assistant",
        name=None,
        occurred_at=NOON,
        sources=(),
    )


def pool_of(candidates: Sequence[Candidate]) -> CandidatePool:
    nothing = np.zeros((len(candidates), 4), dtype=np.float32)
    return CandidatePool(candidates, compute_products(np.zeros(4, dtype=np.float32), nothing, nothing, nothing))


def order(pool: CandidatePool, scores: Mapping[str, Scores]) -> list[tuple[UUID, float]]:
    ranking = fuse_scores(pool, scores, WEIGHTS, parse_question("When did I move?"))
    return [(pool.candidates[index].unit_id, round(float(ranking.scores[index]), 9)) for index in ranking.order]


@given(units, st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_what_came_first(
    made: list[tuple[str, str, float, float, float]], chance: Random
) -> None:
    candidates = [candidate(number, text, session) for number, (text, session, *_) in enumerate(made)]
    raw = np.array([row[2:] for row in made], dtype=np.float64).reshape(-1, 3)
    mixed = list(range(len(made)))
    chance.shuffle(mixed)
    first = order(pool_of(candidates), {name: raw[:, n] for n, name in enumerate(NAMES)})
    again = order(pool_of([candidates[at] for at in mixed]), {name: raw[mixed, n] for n, name in enumerate(NAMES)})
    assert first == again
    assert [score for _, score in first] == sorted((score for _, score in first), reverse=True)


def raising(_pool: CandidatePool) -> Scores:
    raise KeyError("a text")


def fixed(scores: Scores) -> Callable[[CandidatePool], Scores]:
    return lambda _pool: scores


def broken(how: str, count: int) -> Callable[[CandidatePool], Scores]:
    """Return a view that fails: it raises, gives another number of scores, or what is no number."""
    wrong = {"many": np.zeros(count + 1), "nan": np.full(count, np.nan), "inf": np.full(count, np.inf)}
    return raising if how == "raises" else fixed(wrong[how])


@given(
    st.lists(st.tuples(*[st.floats(0, 1)] * 3), min_size=1, max_size=8),
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["raises", "many", "nan", "inf"])),
)
def test_an_arm_that_fails_is_named_and_is_as_one_that_is_not_there(
    rows: list[tuple[float, float, float]], failing: dict[str, str]
) -> None:
    raw = np.array(rows)
    pool = pool_of([candidate(number, "we talk", "s") for number in range(len(rows))])
    sound = {name: ArmResult([], [], fixed(raw[:, n])) for n, name in enumerate(NAMES) if name not in failing}
    wrong = {name: ArmResult([], [], broken(how, len(rows))) for name, how in failing.items()}
    scores, failed = score_pool({**wrong, **sound}, pool)
    assert {one.partition(":")[0] for one in failed} == set(failing)
    assert not any("a text" in one for one in failed)
    alone, none_failed = score_pool(sound, pool)
    assert not none_failed
    assert order(pool, scores) == order(pool, alone)
