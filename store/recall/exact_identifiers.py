"""Raises units that hold an identifier of the question above those that hold a near one or a piece of it. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from store.recall.pool import CandidatePool
from store.recall.question import Question
from store.text.identifiers import Held, Identifier, SearchedText

Scores = NDArray[np.float64]
Levels = tuple[Held, ...]

#: The name of this rule in `RecallQuery.without` and in explanations.
IDENTIFIER = "identifier"


def apply_identifier(scores: Scores, pool: CandidatePool, question: Question) -> Scores:
    """Return the scores with units that hold an identifier of the question raised just above those that miss it.

    A unit precedes another one if it holds at least as much of each identifier, and more of one of which the other
    holds a part, a near one or a piece. Units that hold the same keep their order. A unit that holds nothing of it
    keeps its place, and so does a text that only asks.
    """
    if not question.identifiers:
        return scores
    groups = _group_units(question.identifiers, pool)
    raised = scores.copy()
    for levels in sorted(groups, key=sum):
        bound = max((raised[groups[other]].max() for other in groups if _holds_more(levels, other)), default=-np.inf)
        for index in sorted(groups[levels], key=lambda index: (scores[index], pool.candidates[index].unit_id)):
            if raised[index] > bound:
                break
            bound = raised[index] = np.nextafter(bound, np.inf)
    return raised


def _group_units(identifiers: Sequence[Identifier], pool: CandidatePool) -> Mapping[Levels, Sequence[int]]:
    """Return the places of units by how much of each identifier they hold."""
    texts = [SearchedText(unit.text.casefold()) for unit in pool.candidates]
    held = [_find_held(one, texts, pool) for one in identifiers]
    groups = defaultdict[Levels, list[int]](list)
    for index, levels in enumerate(zip(*held, strict=True)):
        groups[levels].append(index)
    return groups


def _find_held(identifier: Identifier, texts: Sequence[SearchedText], pool: CandidatePool) -> list[Held]:
    """Return how much of an identifier each unit holds; of a text that was read in part the rest is not known."""
    held = [
        Held.NOTHING if asks.share >= 1 else identifier.find(text)
        for text, asks in zip(texts, pool.asking, strict=True)
    ]
    if any(held):
        for index, unit in enumerate(pool.candidates):
            if not held[index] and unit.whole and pool.asking[index].share < 1 and identifier.is_near(texts[index]):
                held[index] = Held.NEAR
    return held


def _holds_more(levels: Levels, others: Levels) -> bool:
    pairs = list(zip(levels, others, strict=True))
    more = any(own >= Held.PART and Held.NEAR <= other < own for own, other in pairs)
    return more and all(own >= other for own, other in pairs)
