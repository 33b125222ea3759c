"""Judges whether an answer has evidence for its question: flags for the agent, never a filter. Pure.

`on_topic` is false when no text reaches the floor of answers by what it says itself: neither its session's other texts
nor that it was said a moment ago speak for it. A question without a word of more than one letter that is no stop word
is never on topic, but "Who am I?" asks for a fact. The floor is higher in a bank of long texts, in which some words
match any question, and lower in an agent's memory, where a question rarely shares a word with the statement that
answers it and names no one. `about` concerns questions that name one speaker of the bank: "other_speaker" when that
speaker's best score is lower, by the margin, than the best of all others. The question is then probably about the wrong
person, which no floor under the scores would show.
"""

import math
from collections.abc import Collection

import numpy as np
from afterturn_client.contract.recall import NO_EVIDENCE, About, Evidence
from numpy.typing import NDArray

from store.recall.asked_facts import find_asked_facts
from store.recall.dense_arm import DenseArm
from store.recall.fusion import Ranking
from store.recall.pool import CandidatePool
from store.recall.question import Question
from store.recall.rules import BY_PLACE
from store.recall.settings import EvidenceSettings

#: Mean length of a bank's units, in words, up to which its floor is that of the settings, and what is added to the
#: floor for each unit of the logarithm of the length over it.
BRIEF, LONGER = 12.0, 0.08


def weigh_evidence(
    ranking: Ranking,
    pool: CandidatePool,
    question: Question,
    named: Collection[str],
    settings: EvidenceSettings,
    *,
    mean_length: float,
    is_understood: bool = True,
) -> Evidence:
    """Return the flags of a ranked pool.

    `named` are the speakers of the bank whom the question names; `mean_length` is that of the bank's units, in words.
    `is_understood`: the model understands the question's language. Else texts in it are all near to each other, and
    only what another arm found as well is evidence.
    """
    if not len(pool):
        return NO_EVIDENCE
    floor = settings.agent_floor if pool.is_agents else settings.floor
    floor += LONGER * math.log(max(1.0, mean_length / BRIEF))
    says_something = any(len(word) > 1 for word in question.words) or find_asked_facts(question.text) is not None
    judged = ranking.judged if is_understood else ranking.judged[_find_spoken_for(ranking)]
    on_topic = judged.max(initial=0.0) >= floor and says_something
    about = _judge_speaker(ranking.judged, pool, named, settings.margin)
    return Evidence(top=float(ranking.before_pins.max()), on_topic=bool(on_topic), about=about)


def _find_spoken_for(ranking: Ranking) -> NDArray[np.bool_]:
    """Return which units an arm scored by more than their meaning, and by more than their place in the bank."""
    scores = [raw for name, raw in ranking.arms.items() if name not in BY_PLACE | {DenseArm.name}]
    found: NDArray[np.bool_] = np.sum([np.zeros(len(ranking.judged)), *scores], axis=0) > 0
    return found


def _judge_speaker(
    scores: NDArray[np.float64], pool: CandidatePool, named: Collection[str], margin: float
) -> About | None:
    if len(named) != 1:
        return None
    theirs = pool.having(lambda unit: unit.speaker in named) > 0
    others = pool.having(lambda unit: unit.seq is not None and unit.speaker not in named) > 0
    if not others.any():
        return "named" if theirs.any() else None
    best = scores[theirs].max(initial=0.0)
    return "named" if best - scores[others].max() >= margin else "other_speaker"
