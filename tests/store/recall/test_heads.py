"""What one arm alone knows is not lost in the sum."""

from dataclasses import replace
from random import Random
from uuid import UUID

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from store.recall.fusion import FIRST_UNITS, HEADS_OF_ARM, fuse_scores, raise_heads
from store.recall.pool import Candidate, CandidatePool
from store.recall.question import parse_question
from tests.store.recall.test_fusion import candidate, pool_of

WEIGHTS = {"dense": 0.75, "lexical": 1.0, "recent": 0.2, "pinned": 0.0}
BEST = HEADS_OF_ARM

Scores = NDArray[np.float64]


def candidates(count: int) -> list[Candidate]:
    return [candidate(number, f"text {number}", "a") for number in range(count)]


def order(scores: Scores, pool: CandidatePool) -> list[int]:
    return sorted(range(len(pool)), key=lambda index: (-scores[index], pool.candidates[index].unit_id))


@given(st.integers(0, 60), st.integers(0, 10_000))
def test_the_best_of_each_arm_stand_among_the_first_and_nobody_else_changes_his_order(count: int, seed: int) -> None:
    chance = Random(seed)
    pool = pool_of(candidates(count))
    arms = {name: np.array([chance.choice((0.0, chance.random())) for _ in range(count)]) for name in WEIGHTS}
    scores = np.array([chance.choice((0.5, chance.random())) for _ in range(count)])
    raised = order(raise_heads(scores, pool, arms, WEIGHTS, BEST), pool)
    heads = set()
    for raw in (raw for name, raw in arms.items() if WEIGHTS[name]):
        best = sorted((i for i in range(count) if raw[i]), key=lambda i: -raw[i])[:BEST]
        heads.update(best)
        assert set(best) <= set(raised[:FIRST_UNITS])
    before = order(scores, pool)
    assert [i for i in raised if i not in heads] == [i for i in before if i not in heads]


def test_the_heads_of_however_many_arms_have_room_among_the_first() -> None:
    arms, count = 7, 7 * BEST + 2
    pool = pool_of(candidates(count))
    alone = {f"arm {n}": np.where(np.arange(count) // BEST == n, np.linspace(1, 0.1, count), 0.0) for n in range(arms)}
    raised = order(raise_heads(np.linspace(0.1, 1, count), pool, alone, dict.fromkeys(alone, 1.0), BEST), pool)
    assert {n * BEST + nth for n in range(arms) for nth in range(FIRST_UNITS // arms)} <= set(raised[:FIRST_UNITS])


def test_what_stands_among_the_first_anyway_stays_where_it_is() -> None:
    pool = pool_of(candidates(30))
    scores = np.linspace(1, 0, 30)
    assert raise_heads(scores, pool, {"dense": scores}, WEIGHTS, BEST) is scores


def test_a_fact_whose_message_is_told_takes_no_place_from_another_head() -> None:
    told = candidates(40)
    told[39] = replace(told[39], sources=(UUID(int=38),))
    pool = pool_of(told)
    scores = np.linspace(1, 0, 40)
    alone = np.zeros(40)
    alone[[39, 37, 36, 35, 34]] = (0.9, 0.8, 0.7, 0.6, 0.5)
    raised = order(raise_heads(scores, pool, {"dense": alone}, WEIGHTS, BEST), pool)
    assert {37, 36, 35, 34} <= set(raised[:FIRST_UNITS])
    assert raised[-1] == 39


def test_an_explanation_tells_how_far_a_head_was_raised_and_the_rule_can_be_left_out() -> None:
    pool = pool_of(candidates(60))
    words, alone = np.linspace(1, 0.1, 60), np.zeros(60)
    alone[59] = 0.01
    question = parse_question("When did I move?")
    ranking = fuse_scores(pool, {"lexical": words, "recent": alone}, WEIGHTS, question)
    assert ranking.order.index(59) < FIRST_UNITS
    assert ranking.explain(59).moved["heads"] > 0
    left = fuse_scores(pool, {"lexical": words, "recent": alone}, WEIGHTS, question, without=("heads",))
    assert left.order.index(59) >= FIRST_UNITS
