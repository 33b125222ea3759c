"""Ranking rules: adjust a score by more than words and meaning. Pure, applied in order."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from store.recall.lexical import Place
from store.recall.pool import AGENTS, Candidate, CandidatePool
from store.recall.question import Question, named_speakers
from store.recall.settings import RankingSettings
from store.text.terms import question_terms, words_of

Scores = NDArray[np.float64]
Rule = Callable[[Scores, CandidatePool, Question, RankingSettings], Scores]

#: What has such a share of a question's terms asks for the same.
SAME = 0.6
#: Words up to which a text that only asks is held back in full beside an agent; from twice as many on, as among people.
BRIEF_WORDS = 8
#: What an agent says in so few words only receives, repeats or thanks.
LINE_WORDS = 30
#: Equal messages of a user from which on each is taken for an order or a greeting.
REPEATED = 3
USER = "user"
#: Roles of AGENTS that are no conversation partner: tools.
OUTPUT_ROLES = AGENTS - {"assistant"}
#: Words beyond which length_brake lowers a score.
BRAKE_WORDS = 100
#: Units by which a session is judged: its best.
BEST_OF_SESSION = 3

#: More words than these add no substance.
SUBSTANCE_WORDS = 100
#: What explanations call the rule that puts pins first.
PINNED = "pinned"
#: More than arms and rules give together.
ABOVE_ALL = 10.0


def apply_substance(scores: Scores, pool: CandidatePool, _question: Question, ranking: RankingSettings) -> Scores:
    """Raise what says more: by a share of the logarithm of its words."""
    raised: Scores = scores + ranking.substance * np.log1p(np.minimum(pool.words, SUBSTANCE_WORDS))
    return raised


def apply_speaker(scores: Scores, pool: CandidatePool, question: Question, ranking: RankingSettings) -> Scores:
    """Raise what was said by the one speaker whom the question names."""
    asked = named_speakers(question, {name for name in pool.speakers if name})
    if len(asked) != 1:
        return scores
    return scores + ranking.speaker * pool.having(lambda unit: unit.speaker in asked)


def apply_session(scores: Scores, pool: CandidatePool, _question: Question, ranking: RankingSettings) -> Scores:
    """Raise what stands in a session that has other good units: by a share of the mean of its three best."""
    if not len(pool):
        return scores
    # What no arm found in a session scores at most what the least of the found units does.
    means = np.full((int(pool.sessions.max()) + 2, BEST_OF_SESSION), scores.min())
    order = np.lexsort((-scores, pool.sessions))
    sessions = pool.sessions[order]
    begins = np.flatnonzero(np.append(True, sessions[1:] != sessions[:-1]))
    places = np.arange(len(order)) - np.repeat(begins, np.diff(np.append(begins, len(order))))
    best = places < BEST_OF_SESSION
    means[sessions[best], places[best]] = scores[order[best]]
    means[-1] = 0.0
    raised: Scores = scores + ranking.session * means.mean(axis=1)[pool.sessions]
    return raised


def apply_short_question(scores: Scores, pool: CandidatePool, question: Question, ranking: RankingSettings) -> Scores:
    """Hold back texts that ask: a short question does not tell, least of all one that asks for the same.

    Of an agent's user the earlier questions and the agent's echoes of them are nearer to a question than any answer;
    people who ask each other tell something by it. So what only asks, in a few words, loses more where an agent is.
    """
    share = np.array([part.share for part in pool.asking])
    same = np.array([measure_sameness(part.questions, question) for part in pool.asking])
    lost = ranking.short_question * share
    if not question.wants_assistant and pool.has_agent:
        brief = np.clip(2 - pool.words / BRIEF_WORDS, 0.0, 1.0)
        lost = np.maximum(lost, ranking.asked_agent * share**2 * brief)
    held: Scores = scores * (1 - lost) * (1 - ranking.echo * same)
    return held


def apply_assistant(scores: Scores, pool: CandidatePool, question: Question, ranking: RankingSettings) -> Scores:
    """Hold back what the assistant said, and most of all an agent's short lines, unless that is what is asked for."""
    if question.wants_assistant:
        return scores
    lost = ranking.assistant * pool.having(lambda unit: unit.role == "assistant")
    held: Scores = scores * (1 - np.where(pool.having(is_line) > 0, ranking.agent_line, lost))
    return held


def is_line(unit: Candidate) -> bool:
    """Say whether a unit is a short line of an agent: it receives, repeats or thanks, and seldom tells."""
    return unit.role in AGENTS and len(unit.text.split(None, LINE_WORDS)) <= LINE_WORDS


def apply_repeated(scores: Scores, pool: CandidatePool, question: Question, ranking: RankingSettings) -> Scores:
    """Hold back what a user sent an agent several times in the same words: it is an order, not a statement."""
    if question.wants_assistant or not pool.has_agent:
        return scores
    times = Counter(unit.text.strip() for unit in pool.candidates if unit.role == USER)
    again = pool.having(lambda unit: unit.role == USER and times[unit.text.strip()] >= REPEATED)
    return scores * (1 - ranking.repeated * again)


def apply_length(scores: Scores, pool: CandidatePool, _question: Question, ranking: RankingSettings) -> Scores:
    """Lower the score of long texts without a speaker: documents."""
    words = pool.words * pool.having(lambda unit: unit.role not in (USER, *AGENTS))
    return scores / (1 + ranking.length_brake * np.log(np.maximum(1.0, words / BRAKE_WORDS)))


def apply_tool_output(scores: Scores, pool: CandidatePool, question: Question, ranking: RankingSettings) -> Scores:
    """Lower the score of long tool output: among many words some match any question."""
    if question.wants_assistant:
        return scores
    put_out = pool.having(lambda unit: unit.role in OUTPUT_ROLES and not is_line(unit))
    return scores * (1 - ranking.tool_output * put_out)


def apply_pinned(scores: Scores, pool: CandidatePool, _question: Question, ranking: RankingSettings) -> Scores:
    """Put pinned units first: the best of them, up to `pinned`, in their own order."""
    places = [index for index, candidate in enumerate(pool.candidates) if candidate.pinned]
    places.sort(key=lambda index: (-scores[index], pool.candidates[index].unit_id))
    raised = scores.copy()
    raised[places[: ranking.pinned]] += ABOVE_ALL
    return raised


#: Name and rule, in the order they are applied.
RULES: Sequence[tuple[str, Rule]] = (
    ("substance", apply_substance),
    ("speaker", apply_speaker),
    ("short question", apply_short_question),
    ("session", apply_session),
    ("assistant", apply_assistant),
    ("repeated", apply_repeated),
    ("length", apply_length),
    ("tool output", apply_tool_output),
    (PINNED, apply_pinned),
)


def mute_echoes(pool: CandidatePool, question: Question) -> CandidatePool:
    """Return the pool in which a question for the same lends nothing to its neighbours, between a user and an agent.

    Of people the one who is asked answers next; in talk with an agent an earlier question and its echo surround each
    other. An agent's short line neither lends nor borrows, unless the question wants what the agent said: beside it
    stands what it repeats. Only what answers such a line still takes over its words.
    """
    echoes = {
        place: unit.role
        for unit, place, part in zip(pool.candidates, pool.places, pool.asking, strict=True)
        if unit.seq is not None and measure_sameness(part.questions, question) >= SAME
    }
    lines = set() if question.wants_assistant else set(compress(pool.places, map(is_line, pool.candidates)))
    if not echoes and not lines:
        return pool
    muted = [_find_muted(unit, place, echoes, lines) for unit, place in zip(pool.candidates, pool.places, strict=True)]
    return replace(pool, muted=np.array(muted, dtype=np.bool_))


def _find_muted(
    unit: Candidate, place: Place, echoes: Mapping[Place, str | None], lines: Collection[Place]
) -> tuple[bool, bool]:
    """Say whether nothing passes between a unit and the one before it, and the one after it."""
    if place in lines:
        return True, True
    session, seq = place
    before, after = (session, seq - 1), (session, seq + 1)

    def echoes_with(beside: Place) -> bool:
        return beside in echoes and (unit.role in AGENTS or echoes[beside] in AGENTS)

    return echoes_with(before) or (not unit.answers and before in lines), echoes_with(after) or after in lines


def measure_sameness(questions: Sequence[str], question: Question) -> float:
    """Return which share of the question's terms the nearest of these has that asks with the same word, from 0 to 1.

    The word that asks is the question's first: "could somebody water the plants" is not "who watered the plants".
    """
    if not questions:
        return 0.0
    first = words_of(question.text)[:1]
    alike = [one for one in questions if first and first[0] in words_of(one)]
    asked = question.words.keys() or set(first)
    shares = (len(asked & question_terms(one, question.rules).keys()) / len(asked) for one in alike)
    return max(shares, default=0.0)
