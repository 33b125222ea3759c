"""Ends an answer where it stops helping: at the drop of its scores, without acknowledgements and echoes. Pure."""

import re
from collections.abc import Sequence
from importlib.resources import files

from store.recall.fusion import Ranking
from store.recall.lexical import Statistics
from store.recall.pool import AGENTS, Candidate, CandidatePool
from store.recall.question import Question
from store.recall.rules import SAME, measure_sameness
from store.recall.short_questions import ShortQuestions

#: Least score of a unit in an answer of an open size, and its least share of the best score.
FLOOR, SHARE = 0.1, 0.3
#: A unit of an agent's memory whose own text scores this much answers the question.
SURE = 0.63
#: Share of a question's idf in words that the bank lacks, above which the bank probably has no answer.
UNKNOWN = 0.4
#: Most units of an answer then: 12 instead of 25, the median of 40 questions without an answer.
MOST_UNSURE = 12
#: Words, of several languages, of which acknowledgements and thanks consist.
_COURTESY = frozenset((files("store.text") / "data" / "courtesy.txt").read_text(encoding="utf-8").split())
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)?|\d+")
#: Words of a text that are read: a longer one says more than thanks.
_MOST_WORDS = 16


def select_helpful(
    ranked: Sequence[tuple[Candidate, ShortQuestions, float]], question: Question, *, most: int | None = None
) -> list[int]:
    """Return the places of the units that an answer of an open size holds, of units with their scores, best first.

    Left out are acknowledgements, earlier questions for the same, and units that score less than FLOOR, or less than
    SHARE of the best one that is left, or stand behind `most` others. Thanks and assent ask for nothing. Pinned units
    stay.
    """
    if is_acknowledgement(question.text):
        return [place for place, (unit, _, _) in enumerate(ranked) if unit.pinned]
    helpful = [
        place
        for place, (unit, asking, _) in enumerate(ranked)
        if unit.pinned or not (is_acknowledgement(unit.text) or is_echo(unit, asking, question))
    ]
    top = max((ranked[place][2] for place in helpful if not ranked[place][0].pinned), default=0.0)
    least = max(FLOOR, SHARE * top)
    near = [place for place in helpful if not ranked[place][0].pinned and ranked[place][2] >= least]
    return sorted([*near[:most], *(place for place in helpful if ranked[place][0].pinned)])


def limit_unsure(pool: CandidatePool, ranking: Ranking, question: Question, statistics: Statistics) -> int | None:
    """Return the most units of an answer to a question that an agent's memory probably does not answer, else None.

    The scores of such a question are flat, so no drop ends the answer. It has no limit if a unit reaches SURE, if only
    people with names speak (their names raise all scores), or if the bank has most words of the question.
    """
    if not pool.is_agents or ranking.judged.max(initial=0.0) >= SURE:
        return None
    weights = {word: count * statistics.idf(word) for word, count in question.words.items()}
    unknown = sum(weight for word, weight in weights.items() if not statistics.frequency.get(word))
    return MOST_UNSURE if unknown > UNKNOWN * sum(weights.values()) else None


def is_acknowledgement(text: str) -> bool:
    """Return whether a text says no more than that it was heard, or thanks."""
    words = _WORD.finditer(text[:200].lower().replace("\u2019", "'"))
    return all(nth < _MOST_WORDS and word[0] in _COURTESY for nth, word in enumerate(words))


def is_echo(unit: Candidate, asking: ShortQuestions, question: Question) -> bool:
    """Return whether a unit only asks for the same as the question; among an agent's, also one that says it again."""
    asks_alone = asking.share >= 1 or (unit.role in AGENTS and asking.share > 0)
    return asks_alone and measure_sameness(asking.questions, question) >= SAME
