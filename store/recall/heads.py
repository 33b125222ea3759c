"""Keeps the best units of each arm (its heads) among the first of an answer. Pure.

A text that shares no word with the question, whose words the model does not know, or that has no vector yet, is found
by one arm only, and the many units that two arms find with low scores would push it down. Other memory systems take
units from each arm's list in turn; here the sum decides all ranks except the last few among the first.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from store.recall.pool import CandidatePool

#: The rule's name in `RecallQuery.without` and in explanations.
NAME = "heads"
#: Number of first units among which the heads are placed.
FIRST = 20

Scores = NDArray[np.float64]


def raise_heads(
    scores: Scores, pool: CandidatePool, arms: Mapping[str, Scores], weights: Mapping[str, float], best: int
) -> Scores:
    """Return the scores with the `best` candidates of each weighted arm raised into the FIRST of the pool.

    With many arms there are fewer of each, so that all heads fit. Equal scores of an arm are ordered by the sum. A fact
    whose source is in the pool is no head: its source is answered instead.
    """
    order = _sort_by_score(scores, pool)
    counting = [raw for name, raw in arms.items() if weights[name] > 0]
    heads = _select_heads(order, pool, counting, min(best, FIRST // max(1, len(counting))))
    if heads.issubset(order[:FIRST]):
        return scores
    others = [index for index in order if index not in heads]
    # The score of the first of the others that has to rank after the heads.
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
