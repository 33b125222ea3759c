"""Fuses the arms' scores into one ranking: a weighted sum, adjusted by rules; each arm keeps its best units. Pure.

Those are its heads. A text that shares no word with the question, whose words the model does not know, or that has no
vector yet, is found by one arm only, and the many units that two arms find with low scores would push it down. Other
memory systems take units from each arm's list in turn; here the sum decides all ranks except the last few among the
first.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from afterturn_client.contract.recall import ArmScore, Explanation
from numpy.typing import NDArray

from store.recall.pool import CandidatePool
from store.recall.question import Question
from store.recall.rules import BY_PLACE, PINNED, PINS, RULES, raise_pinned

Scores = NDArray[np.float64]

#: The name of `raise_heads` in `RecallQuery.without` and in explanations.
HEADS = "heads"
#: Number of first units among which the heads are placed, and most heads of an arm.
FIRST_UNITS, HEADS_OF_ARM = 20, 4


@dataclass(frozen=True, slots=True)
class Ranking:
    """The pool in order: indexes best first, final scores by index, each arm's scores, and what each rule added.

    `judged` are the scores without what BY_PLACE adds; `weights` are the arms' weights.
    """

    order: Sequence[int]
    scores: Scores
    judged: Scores
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
            name: ArmScore(
                rank=1 + int(np.sum(scores > scores[index])), score=float(scores[index]), weight=self.weights[name]
            )
            for name, scores in self.arms.items()
        }
        moved = {name: float(by[index]) for name, by in self.moved.items() if by[index]}
        return Explanation(arms=arms, moved=moved)


def fuse_scores(
    pool: CandidatePool,
    arms: Mapping[str, Scores],
    weights: Mapping[str, float],
    question: Question,
    *,
    pins: int = PINS,
    without: Collection[str] = (),
) -> Ranking:
    """Return the pool ranked by the weighted sum of the arms' raw scores, adjusted by the rules; ties by unit id.

    All raw scores are defined between 0 and 1, so no scores are normalised per query. Rules named in `without` are
    skipped. The best `pins` pinned units come first. While some units of the pool have no vector, each arm's best units
    are placed among the first.
    """
    scores, placed = np.zeros(len(pool)), np.zeros(len(pool))
    for name, raw in arms.items():
        scores = scores + weights[name] * raw
        if name in BY_PLACE:
            placed = placed + weights[name] * raw
    judged = scores - placed if placed.any() else scores
    moved: dict[str, Scores] = {}
    for name, rule in ((name, rule) for name, rule in RULES if name not in without):
        before, scores = scores, rule(scores, pool, question)
        if name not in BY_PLACE:
            judged = scores if judged is before else rule(judged, pool, question)
        moved[name] = scores - before
    if PINNED not in without:
        before, scores = scores, raise_pinned(scores, pool, pins)
        moved[PINNED] = scores - before
    # A unit without a vector scores by its words alone: this rule lets it stand beside units that have one.
    if HEADS not in without and not pool.products.known[:, 0].all():
        after = raise_heads(scores, pool, arms, weights, HEADS_OF_ARM)
        moved[HEADS], scores = after - scores, after
    final = scores.tolist()
    order = sorted(range(len(pool)), key=lambda index: (-final[index], pool.candidates[index].unit_id))
    return Ranking(order, scores, judged, arms, moved, {name: weights[name] for name in arms})


def raise_heads(
    scores: Scores, pool: CandidatePool, arms: Mapping[str, Scores], weights: Mapping[str, float], best: int
) -> Scores:
    """Return the scores with the `best` candidates of each weighted arm raised into the FIRST_UNITS of the pool.

    With many arms there are fewer of each, so that all heads fit. Equal scores of an arm are ordered by the sum. A fact
    whose source is in the pool is no head: its source is answered instead.
    """
    order = _sort_by_score(scores, pool)
    counting = [raw for name, raw in arms.items() if weights[name] > 0]
    heads = _select_heads(order, pool, counting, min(best, FIRST_UNITS // max(1, len(counting))))
    if heads.issubset(order[:FIRST_UNITS]):
        return scores
    others = [index for index in order if index not in heads]
    # The score of the first of the others that has to rank after the heads.
    passed = scores[others[FIRST_UNITS - len(heads)]]
    raised = scores.copy()
    above = passed
    for index in reversed([index for index in order if index in heads and scores[index] <= passed]):
        above = raised[index] = np.nextafter(above, np.inf)
    return raised


def _sort_by_score(scores: Scores, pool: CandidatePool) -> list[int]:
    return sorted(range(len(pool)), key=lambda index: (-scores[index], pool.candidates[index].unit_id))


def _select_heads(order: Sequence[int], pool: CandidatePool, arms: Sequence[Scores], best: int) -> set[int]:
    present = {candidate.unit_id for candidate in pool.candidates}
    own = [index for index in order if present.isdisjoint(pool.candidates[index].sources)]
    found: set[int] = set()
    for raw in arms:
        known = sorted((index for index in own if raw[index] > 0), key=lambda index: -raw[index])
        found.update(known[:best])
    return found
