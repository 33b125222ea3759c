"""What moves a score besides words and meaning. Pure rules, applied one after the other."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from re import Pattern
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from store.recall.pool import Pool
from store.recall.question import Question, named_speakers
from store.recall.settings import RankingSettings
from store.text.word_rules import strip_accents

Scores = NDArray[np.float64]
Rule = Callable[[Scores, Pool, Question, RankingSettings], Scores]

#: A longer question also tells something.
SHORT_QUESTION_WORDS = 16
#: The length brake takes hold beyond so many words.
BRAKE_WORDS = 100
#: A session is judged by so many of its units.
BEST_OF_SESSION = 3

#: So many characters of a text tell its kind.
BEGINNING = 1000
#: More words than these add no substance.
SUBSTANCE_WORDS = 100
#: What was said so long before the last counts half as late.
HALF_LIFE = timedelta(days=365)
#: More than arms and rules give together.
ABOVE_ALL = 10.0
#: More facts than these are no more evidence.
MOST_FACTS = 3
#: Of himself speaks who says "I" so often.
SELVES = 3

_SENTENCE_END = re.compile(r"(?<=[.!?\uff1f\u3002])\s+|\n+")


def apply_substance(scores: Scores, pool: Pool, _question: Question, ranking: RankingSettings) -> Scores:
    """Raise what says more: by a share of the logarithm of its words."""
    words = np.array([len(candidate.text[:BEGINNING].split()) for candidate in pool.candidates], dtype=float)
    raised: Scores = scores + ranking.substance * np.log1p(np.minimum(words, SUBSTANCE_WORDS))
    return raised


def apply_speaker(scores: Scores, pool: Pool, question: Question, ranking: RankingSettings) -> Scores:
    """Raise what was said by the one speaker whom the question names."""
    speakers = [candidate.speaker for candidate in pool.candidates]
    asked = named_speakers(question, {name for name in speakers if name})
    if len(asked) != 1:
        return scores
    return scores + ranking.speaker * np.array([name in asked for name in speakers], dtype=float)


def apply_session(scores: Scores, pool: Pool, _question: Question, ranking: RankingSettings) -> Scores:
    """Raise what stands in a session that has other good units: by a share of the mean of its three best."""
    by_session: dict[UUID | None, list[float]] = {}
    for candidate, score in zip(pool.candidates, scores, strict=True):
        by_session.setdefault(candidate.session_id, []).append(float(score))
    # What no arm found in a session scores at most what the least of the found units does.
    floor = float(min(scores, default=0.0))
    mean = {key: 0.0 if key is None else _mean_of_best(found, floor) for key, found in by_session.items()}
    return scores + ranking.session * np.array([mean[c.session_id] for c in pool.candidates], dtype=float)


def short_questions(scores: Scores, pool: Pool, _question: Question, ranking: RankingSettings) -> Scores:
    """Hold back texts that ask: a short question does not tell."""
    share = np.array([asking_share(candidate.text) for candidate in pool.candidates])
    return scores * (1 - ranking.short_question * share)


def apply_assistant(scores: Scores, pool: Pool, question: Question, ranking: RankingSettings) -> Scores:
    """Hold back what the assistant said, unless that is what is asked for."""
    if question.wants_assistant:
        return scores
    said = np.array([candidate.role == "assistant" for candidate in pool.candidates], dtype=float)
    return scores * (1 - ranking.assistant * said)


def long_texts(scores: Scores, pool: Pool, _question: Question, ranking: RankingSettings) -> Scores:
    """Hold back long texts that are no person's and no assistant's: documents and what tools put out."""
    words = [
        0 if candidate.role in ("user", "assistant") else candidate.text.count(" ") + 1 for candidate in pool.candidates
    ]
    over = np.log(np.maximum(1.0, np.array(words, dtype=float) / BRAKE_WORDS))
    return scores / (1 + ranking.length_brake * over)


def own_life(scores: Scores, pool: Pool, question: Question, ranking: RankingSettings) -> Scores:
    """Raise texts whose speaker tells of himself: what is remembered of people is mostly their own word."""
    told = np.array(
        [min(SELVES, _count_matches(c.text, question.language.tells_of_self)) for c in pool.candidates], dtype=float
    )
    return scores * (1 + ranking.own_life * told / SELVES)


def answer_type(scores: Scores, pool: Pool, question: Question, ranking: RankingSettings) -> Scores:
    """Raise texts that hold a time when one is asked for, or else a number."""
    if question.wants_time:
        told = [_contains_match(candidate.text, question.language.tells_time) for candidate in pool.candidates]
    elif question.wants_number:
        told = [_contains_match(candidate.text, question.language.tells_number) for candidate in pool.candidates]
    else:
        return scores
    return scores * (1 + ranking.answer_type * np.array(told, dtype=float))


def apply_recency(scores: Scores, pool: Pool, _question: Question, ranking: RankingSettings) -> Scores:
    """Raise what was said later, by less than any arm finds: it decides between what is equal otherwise.

    Measured on questions about half a year's talk: at 0.02 nothing is lost and the first five gain 0.001; at 0.05 the
    first twenty lose as much, at 0.1 the first five lose 0.002, and a half-life of a month is worse than none.
    """
    said = np.array([candidate.occurred_at.timestamp() for candidate in pool.candidates])
    before_last = (max(said, default=0.0) - said) / HALF_LIFE.total_seconds()
    raised: Scores = scores + ranking.recency * np.exp2(-before_last)
    return raised


def apply_evidence(scores: Scores, pool: Pool, _question: Question, ranking: RankingSettings) -> Scores:
    """Raise what facts were drawn from, by their number, at most so many.

    Off by default: on conversations it moved nothing up to 0.05, and beyond that good answers down (0.003 of the first
    ten at 0.2). Where a model draws many facts it may be worth another look.
    """
    drawn = Counter(source for candidate in pool.candidates for source in candidate.sources)
    share = [min(MOST_FACTS, drawn[candidate.unit_id]) / MOST_FACTS for candidate in pool.candidates]
    return scores * (1 + ranking.evidence * np.array(share, dtype=float))


def apply_pinned(scores: Scores, pool: Pool, _question: Question, ranking: RankingSettings) -> Scores:
    """Put what is pinned first: the best so many of it, in their own order."""
    places = [index for index, candidate in enumerate(pool.candidates) if candidate.pinned]
    places.sort(key=lambda index: (-scores[index], pool.candidates[index].unit_id))
    raised = scores.copy()
    raised[places[: ranking.pinned]] += ABOVE_ALL
    return raised


#: Name and rule, in the order they are applied.
RULES: Sequence[tuple[str, Rule]] = (
    ("substance", apply_substance),
    ("speaker", apply_speaker),
    ("session", apply_session),
    ("short question", short_questions),
    ("assistant", apply_assistant),
    ("length", long_texts),
    ("own life", own_life),
    ("answer type", answer_type),
    ("evidence", apply_evidence),
    ("recency", apply_recency),
    ("pinned", apply_pinned),
)


def asking_share(text: str) -> float:
    """Return the share of a text's words that stand in short questions, from 0 to 1."""
    if "?" not in text and "\uff1f" not in text:
        return 0.0
    sentences = [part.strip() for part in _SENTENCE_END.split(text) if part.strip()]
    words = [len(sentence.split()) for sentence in sentences]
    asking = sum(
        count
        for sentence, count in zip(sentences, words, strict=True)
        if sentence[-1] in "?\uff1f" and count <= SHORT_QUESTION_WORDS
    )
    return asking / max(1, sum(words))


def _mean_of_best(scores: Sequence[float], floor: float) -> float:
    best = sorted(scores, reverse=True)[:BEST_OF_SESSION]
    return (sum(best) + floor * (BEST_OF_SESSION - len(best))) / BEST_OF_SESSION


def _count_matches(text: str, pattern: Pattern[str]) -> int:
    return len(pattern.findall(strip_accents(text[:BEGINNING].lower())))


def _contains_match(text: str, pattern: Pattern[str]) -> bool:
    return pattern.search(strip_accents(text.lower())) is not None
