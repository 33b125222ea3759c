"""Judges whether an answer has evidence for its question: flags for the agent, never a filter. Pure.

`on_topic` is false when no score reaches the floor of answers. The floor is lower in an agent's memory, where a
question rarely shares a word with the statement that answers it and names no one. `about` concerns questions that name
one speaker of the bank: "other_speaker" when that speaker's best score is lower, by the margin, than the best of all
others. The question is then probably about the wrong person, which no floor under the scores would show.
"""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from store.recall.pool import CandidatePool
from store.recall.query import About, Evidence
from store.recall.settings import EvidenceSettings


def weigh_evidence(
    scores: NDArray[np.float64], pool: CandidatePool, named: Collection[str], settings: EvidenceSettings
) -> Evidence:
    """Return the flags of a pool with these final scores, without the pins' share; shape (len(pool),).

    `named` are the speakers of the bank whom the question names.
    """
    if not len(pool):
        return Evidence()
    top = float(scores.max())
    floor = settings.agent_floor if _is_agents(pool) else settings.floor
    return Evidence(top, top >= floor, _judge_speaker(scores, pool, named, settings.margin))


def _is_agents(pool: CandidatePool) -> bool:
    """Return whether this is an agent's memory: an agent speaks in it, or no speaker has a name."""
    return pool.has_agent or not any(unit.name for unit in pool.candidates)


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
