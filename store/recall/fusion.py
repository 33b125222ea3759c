"""Fuses the arms' scores into one ranking: a weighted sum, adjusted by rules. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from store.recall.heads import NAME as HEADS
from store.recall.heads import raise_heads
from store.recall.pool import CandidatePool
from store.recall.query import ArmScore, Explanation
from store.recall.question import Question
from store.recall.rules import PINNED, RULES
from store.recall.settings import RankingSettings

Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The pool in order: indexes best first, final scores by index, each arm's scores, and what each rule added.

    `weights` are the arms' weights.
    """

    order: Sequence[int]
    scores: Scores
    arms: Mapping[str, Scores]
    moved: Mapping[str, Scores]
    weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def before_pins(self) -> Scores:
        """The scores without the share that pins add."""
        return self.scores - self.moved.get(PINNED, 0.0)

    def found_by(self, index: int) -> tuple[str, ...]:
        """Return the names of the arms that scored a unit above 0."""
        return tuple(name for name, scores in self.arms.items() if scores[index] > 0)

    def explain(self, index: int) -> Explanation:
        """Return how each arm ranked a unit and how far each rule moved it, which together make up its score."""
        arms = {
            name: ArmScore(1 + int(np.sum(scores > scores[index])), float(scores[index]), self.weights[name])
            for name, scores in self.arms.items()
        }
        return Explanation(arms, {name: float(by[index]) for name, by in self.moved.items() if by[index]})


def fuse_scores(
    pool: CandidatePool,
    arms: Mapping[str, Scores],
    weights: Mapping[str, float],
    question: Question,
    ranking: RankingSettings,
    *,
    without: Collection[str] = (),
) -> Ranking:
    """Return the pool ranked by the weighted sum of the arms' raw scores, adjusted by the rules; ties by unit id.

    All raw scores are defined between 0 and 1, so no scores are normalised per query. Rules named in `without` are
    skipped. While some units of the pool have no vector, each arm's best units are placed among the first.
    """
    scores = np.zeros(len(pool))
    for name, raw in arms.items():
        scores = scores + weights[name] * raw
    moved: dict[str, Scores] = {}
    for name, rule in ((name, rule) for name, rule in RULES if name not in without):
        after = rule(scores, pool, question, ranking)
        moved[name] = after - scores
        scores = after
    # A unit without a vector scores by its words alone: this rule lets it stand beside units that have one.
    if HEADS not in without and not pool.products.known[:, 0].all():
        after = raise_heads(scores, pool, arms, weights, ranking.heads)
        moved[HEADS], scores = after - scores, after
    final = scores.tolist()
    order = sorted(range(len(pool)), key=lambda index: (-final[index], pool.candidates[index].unit_id))
    return Ranking(order, scores, arms, moved, {name: weights[name] for name in arms})
