"""Adjusts scores by ranking rules, which look at more than words and meaning. Pure, applied in order."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from store.recall.lexical import Place
from store.recall.pool import Candidate, CandidatePool
from store.recall.question import Question, find_named_speakers
from store.text.identifiers import Held, Identifier, SearchedText
from store.text.terms import question_terms, split_words
from store.text.times import tells_time

Scores = NDArray[np.float64]
Rule = Callable[[Scores, CandidatePool, Question], Scores]
#: How much of each identifier of the question a unit holds.
Levels = tuple[Held, ...]

#: Share of a question's terms from which on another question is taken to ask for the same.
SAME = 0.6
#: Questions of one text that are compared with the question.
QUESTIONS = 16
#: Words up to which a pure question loses ASKED_AGENT in full in an agent's memory; from twice as many on, nothing.
BRIEF_WORDS = 8
#: Number of equal messages of a user from which on they are taken for an order or a greeting.
REPEATED = 3
#: Number of a session's best units whose mean is its score, and the weight of that mean.
BEST_OF_SESSION, SESSION_WEIGHT = 3, 0.25

#: Score added to units of the one speaker whom the question names, and to a text that tells a time where one is asked
#: for.
SPEAKER, TIME_TOLD = 0.13, 0.1
#: Score added for each unit of the logarithm of a text's number of words, and words above which no more is added.
SUBSTANCE, SUBSTANCE_WORDS = 0.03, 100
#: Share of its score that a text loses that only asks, that an earlier question for the same loses, that a few words
#: that only ask lose in an agent's memory, and that a message loses that a user sent an agent several times.
SHORT_QUESTION, ECHO, ASKED_AGENT, AGAIN = 0.4, 0.5, 0.9, 0.8
#: Share of its score that a message of the assistant loses, a line of an agent or a tool of up to 30 words, and longer
#: output of a tool.
ASSISTANT, AGENT_LINE, TOOL_OUTPUT = 0.2, 0.8, 0.6
#: The names, in explanations and `RecallQuery.without`, of an arm, two rules and the pins: they raise a unit for where
#: it stands or above another one, not for what it says. So they rank, and are no evidence.
RECENT, SESSION, IDENTIFIER, PINNED = "recent", "session", "identifier", "pinned"
BY_PLACE = frozenset({RECENT, SESSION, IDENTIFIER, PINNED})
#: Most pinned units that come first, and what raises them: more than arms and rules give together.
PINS, ABOVE_ALL = 5, 10.0


def apply_substance(scores: Scores, pool: CandidatePool, _question: Question) -> Scores:
    """Return the scores raised by a share of the logarithm of each unit's number of words."""
    raised: Scores = scores + SUBSTANCE * np.log1p(np.minimum(pool.words, SUBSTANCE_WORDS))
    return raised


def apply_speaker(scores: Scores, pool: CandidatePool, question: Question) -> Scores:
    """Return the scores with units of the one speaker whom the question names raised."""
    asked = find_named_speakers(question, {name for name in pool.speakers if name})
    if len(asked) != 1:
        return scores
    return scores + SPEAKER * pool.having(lambda unit: unit.speaker in asked)


def apply_time_told(scores: Scores, pool: CandidatePool, question: Question) -> Scores:
    """Return the scores with texts raised that tell a time, if the question asks when or how long."""
    if not question.time_words:
        return scores
    return scores + TIME_TOLD * pool.having(lambda unit: tells_time(unit.text, question.time_words))


def apply_session(scores: Scores, pool: CandidatePool, _question: Question) -> Scores:
    """Return the scores raised by a share of the mean score of the three best units of each unit's session."""
    if not len(pool):
        return scores
    # Units of a session that no arm found score at most as the worst of those found.
    means = np.full((int(pool.sessions.max()) + 2, BEST_OF_SESSION), scores.min())
    order = np.lexsort((-scores, pool.sessions))
    sessions = pool.sessions[order]
    begins = np.flatnonzero(np.append(True, sessions[1:] != sessions[:-1]))
    places = np.arange(len(order)) - np.repeat(begins, np.diff(np.append(begins, len(order))))
    best = places < BEST_OF_SESSION
    means[sessions[best], places[best]] = scores[order[best]]
    means[-1] = 0.0
    raised: Scores = scores + SESSION_WEIGHT * means.mean(axis=1)[pool.sessions]
    return raised


def apply_short_question(scores: Scores, pool: CandidatePool, question: Question) -> Scores:
    """Return the scores with short questions lowered, most of all those that ask for the same as the question.

    In an agent's memory the user's earlier questions and the agent's echoes of them are nearer to a question than any
    answer, so there a pure question of few words loses more. People who ask each other also state something by it.
    """
    share = np.array([part.share for part in pool.asking])
    same = np.array([measure_sameness(part.questions, question) for part in pool.asking])
    lost = SHORT_QUESTION * share
    if not question.wants_assistant and pool.has_agent:
        brief = np.clip(2 - pool.words / BRIEF_WORDS, 0.0, 1.0)
        lost = np.maximum(lost, ASKED_AGENT * share**2 * brief)
    held: Scores = scores * (1 - lost) * (1 - ECHO * same)
    return held


def apply_assistant(scores: Scores, pool: CandidatePool, question: Question) -> Scores:
    """Return the scores with the assistant's messages lowered, an agent's short lines most, unless asked for."""
    if question.wants_assistant:
        return scores
    held: Scores = scores * (1 - np.where(pool.lines, AGENT_LINE, ASSISTANT * pool.is_assistants))
    return held


def apply_repeated(scores: Scores, pool: CandidatePool, question: Question) -> Scores:
    """Return the scores with messages lowered that a user sent an agent several times: orders, not statements."""
    if question.wants_assistant or not pool.has_agent:
        return scores
    held: Scores = scores * (1 - AGAIN * (pool.times_sent >= REPEATED))
    return held


def apply_tool_output(scores: Scores, pool: CandidatePool, question: Question) -> Scores:
    """Return the scores with long tool output lowered: among many words some match any question."""
    if question.wants_assistant:
        return scores
    held: Scores = scores * (1 - TOOL_OUTPUT * (pool.is_output & ~pool.lines))
    return held


def raise_pinned(scores: Scores, pool: CandidatePool, most: int) -> Scores:
    """Return the scores with the best pinned units, `most` of them, raised above all others, in their order."""
    places = [index for index, candidate in enumerate(pool.candidates) if candidate.pinned]
    places.sort(key=lambda index: (-scores[index], pool.candidates[index].unit_id))
    raised = scores.copy()
    raised[places[:most]] += ABOVE_ALL
    return raised


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


#: Name and rule, in the order they are applied.
RULES: Sequence[tuple[str, Rule]] = (
    ("substance", apply_substance),
    ("speaker", apply_speaker),
    ("short question", apply_short_question),
    ("time told", apply_time_told),
    (SESSION, apply_session),
    ("assistant", apply_assistant),
    ("repeated", apply_repeated),
    ("tool output", apply_tool_output),
    (IDENTIFIER, apply_identifier),
)


def mute_lines(pool: CandidatePool, question: Question) -> CandidatePool:
    """Return the pool with an agent's short lines muted, unless the question asks what the agent said.

    A line counts for no neighbour and takes nothing from its own, which it mostly repeats. Only a message that answers
    such a line still takes over its words.
    """
    lines = set() if question.wants_assistant else set(compress(pool.places, pool.lines))
    if not lines:
        return pool
    muted = [_find_muted(unit, place, lines) for unit, place in zip(pool.candidates, pool.places, strict=True)]
    return pool.mute(np.array(muted, dtype=np.bool_))


def _find_muted(unit: Candidate, place: Place, lines: Collection[Place]) -> tuple[bool, bool]:
    """Return whether the message before a unit is muted for it, and whether the one after it is."""
    session, seq = place
    is_muted = place in lines
    return is_muted or (not unit.answers and (session, seq - 1) in lines), is_muted or (session, seq + 1) in lines


def measure_sameness(questions: Sequence[str], question: Question) -> float:
    """Return the largest share of the question's terms, from 0 to 1, in one of `questions` with its first word.

    The first word is taken for the interrogative: "could you water the plants" does not ask for the same as "who
    watered the plants".
    """
    if not questions:
        return 0.0
    first = split_words(question.text)[:1]
    alike = [one for one in questions[:QUESTIONS] if first and first[0] in split_words(one)]
    asked = question.words.keys() or set(first)
    shares = (len(asked & question_terms(one, question.rules).keys()) / len(asked) for one in alike)
    return max(shares, default=0.0)
