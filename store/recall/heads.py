"""Keeps the best units of each arm among the first of an answer. Pure.

A text that shares no word with the question, means nothing to the model, or has no vector yet is known to one arm only,
and many that two arms find a little would push it down. Source: the memory systems' habit of drawing from each list in
turn where nothing may be lost; here the sum decides all places but the last few.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from store.recall.pool import CandidatePool

#: What a question calls this rule to leave it out, and what explanations call it.
NAME = "heads"
#: The heads stand among this number of first answers.
FIRST = 20

Scores = NDArray[np.float64]


def with_heads(
    scores: Scores, pool: CandidatePool, arms: Mapping[str, Scores], weights: Mapping[str, float], best: int
) -> Scores:
    """Raise the `best` candidates of each weighted arm into the FIRST of the pool; the others stay.

    Of many arms fewer each, so that all heads have room. Equals of an arm go by their score in the sum. What folds
    into its source is no head: the source is told instead.
    """
    order = _sort_by_score(scores, pool)
    counting = [raw for name, raw in arms.items() if weights[name] > 0]
    heads = _select_heads(order, pool, counting, min(best, FIRST // max(1, len(counting))))
    if heads.issubset(order[:FIRST]):
        return scores
    others = [index for index in order if index not in heads]
    # The first of the others that has to go behind the heads.
    passed = scores[others[FIRST - len(heads)]]
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
