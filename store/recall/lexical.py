"""Scores units by words: BM25 with neighbouring messages, scaled to 0..1. Pure rules.

A posting says that a term stands in a message. Its weight is BM25's. A message also gets a share of the weight of its
neighbours' words (same session), a larger share from the question that it answers; of its own and its neighbours'
weights of a term only the largest counts, so that no word counts twice. The sum over the question's terms is divided
by the highest possible sum, so that it can be added to a cosine.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from types import MappingProxyType
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from store.recall.question import Question
from store.text.terms import Terms

#: One posting as the database packs it. A unit that is not a message stands alone: its own id for a session, seq -1.
POSTING = np.dtype([("session", "V16"), ("seq", ">i4"), ("tf", ">i4"), ("length", ">i4")])
#: One posting of a unit without its place in a session.
ALONE = np.dtype([("session", "V16"), ("tf", ">i4"), ("length", ">i4")])

#: BM25's k1 and b: how much a repeated word counts, and how far weights are normalised by the length of texts.
SATURATION, LENGTH_SHARE = 1.2, 0.75
#: Weight of a word in a neighbouring message, beside 1 for the message's own, and what is added for the question before
#: an answer.
CONTEXT, ANSWER = 0.4, 0.5
#: Most times the bank's mean length that a text's length counts in BM25: else a word that stands in one pasted log
#: alone would have no weight there.
LONGEST = 4.0

Postings = NDArray[np.void]
Scores = NDArray[np.float64]
Place = tuple[UUID, int]
Slots = NDArray[np.intp]
Keys = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Statistics:
    """A bank's number of units, their mean length in words, and the document frequency of each asked term."""

    units: int
    mean_length: float
    frequency: Mapping[str, int] = field(repr=False)

    def idf(self, term: str) -> float:
        """Return the term's inverse document frequency, ln(1 + (n - df + .5) / (df + .5))."""
        df = min(self.frequency.get(term, 0), self.units)
        return float(np.log1p((self.units - df + 0.5) / (df + 0.5)))


def choose_terms(asked: Collection[str], statistics: Statistics, budget: int) -> list[str]:
    """Return the terms that the bank has, rarest first, as long as their postings fit the budget; at least the rarest.

    A term in very many units has the least weight and costs most, and the rarer terms find nearly all units that
    matter without it.
    """
    return [term for n, (term, spent) in enumerate(_rarest_first(asked, statistics)) if n == 0 or spent <= budget]


def _rarest_first(terms: Iterable[str], statistics: Statistics) -> list[tuple[str, int]]:
    """Return the terms that the bank has, rarest first, each with the number of its postings and all before."""
    known = sorted((statistics.frequency[term], term) for term in terms if statistics.frequency.get(term))
    return [(term, spent) for (_, term), spent in zip(known, accumulate(df for df, _ in known), strict=True)]


class LexicalScores:
    """The scores of all units that hold one of the terms, and of messages next to them."""

    def __init__(self, places: "_Places", weights: Sequence[Scores]) -> None:
        """Hold each term's weights, on the scale of the sum, in the order of the places' postings."""
        self._places = places
        self._terms = weights

    def best(self, count: int) -> list[Place]:
        """Return the places of the best scores, best first; a unit that is not a message is (its id, -1).

        Each message is scored as if it answered the one before it, since that is not known here.
        """
        scores = np.zeros(len(self._places))
        for nth, weights in enumerate(self._terms):
            scores += self._places.with_context(nth, weights, CONTEXT + ANSWER, CONTEXT)
        count = min(count, len(scores))
        top = np.argpartition(-scores, count - 1)[:count] if count else np.empty(0, dtype=np.intp)
        top = top[scores[top] > 0]  # the slot before a session's first message is no place
        return self._places.names(top[np.argsort(-scores[top], kind="stable")])

    def of(self, places: Sequence[Place], answers: NDArray[np.bool_], unmuted: Scores | None = None) -> Scores:
        """Return the scores of these places, 0 for places without a term; `answers` says which follow a question.

        Shapes are (len(places),); `unmuted`, of shape (len(places), 2), is 0 where a neighbour's words do not count.
        """
        of_before, of_after = np.ones((2, len(places))) if unmuted is None else unmuted.T
        own, before, after = self._places.slots(places)
        answering = CONTEXT + ANSWER * answers
        scores = np.zeros(len(places))
        for nth, weights in enumerate(self._terms):
            at = self._places.own(nth, weights)
            scores += np.maximum(
                at[own], np.maximum(of_before * answering * at[before], of_after * CONTEXT * at[after])
            )
        return scores


def score_postings(postings: Mapping[str, Postings], question: Question, statistics: Statistics) -> LexicalScores:
    """Return the scores of all places in the postings; `postings` holds those that were read of each term."""
    return LexicalScores(_Places(list(postings.values())), _weigh_postings(postings, question, statistics))


def score_texts(texts: Sequence[Terms], read: Collection[str], question: Question, statistics: Statistics) -> Scores:
    """Return the scores of texts that are in no index, by those of the question's terms that were `read` of it."""
    scores = np.zeros(len(texts))
    postings = {
        term: np.array([(bytes(16), -1, one.counts.get(term, 0), one.length) for one in texts], dtype=POSTING)
        for term in read
    }
    for weights in _weigh_postings(postings, question, statistics):
        scores += weights
    return scores


@dataclass(frozen=True, slots=True)
class RankedUnits:
    """Ids of units in hexadecimal, their lexical scores from 0 to 1, and their banks, best first.

    `are_cut`: there are more.
    """

    units: Sequence[str] = field(repr=False)
    scores: Sequence[float] = field(repr=False)
    banks: Sequence[UUID] = field(repr=False)
    are_cut: bool


def rank_units(
    postings: Mapping[str, Mapping[UUID, Postings]],
    question: Question,
    units: int,
    most: int,
    *,
    unread: Mapping[str, int] = MappingProxyType({}),
) -> RankedUnits:
    """Return the best units that contain one of the terms, in banks of `units` units.

    `postings` holds the postings of each term by bank, ALONE; `unread`: document frequencies of terms whose postings
    were not read.
    """
    parts = [(bank, some) for of_term in postings.values() for bank, some in of_term.items()]
    if not parts:
        return RankedUnits([], [], [], are_cut=bool(unread))
    together = np.concatenate([some for _, some in parts])
    ends = np.cumsum([len(some) for _, some in parts])
    # The last 8 bytes of a uuid5 are random enough to stand for it.
    tails = np.ascontiguousarray(together["session"]).view(np.uint64).reshape(-1, 2)[:, 1]
    _, first, number = np.unique(tails, return_index=True, return_inverse=True)
    of_terms = {term: np.concatenate(list(some.values())) for term, some in postings.items()}
    frequency = Counter({term: len(some) for term, some in of_terms.items()}) + Counter(unread)
    statistics = Statistics(max(units, len(first)), float(together["length"][first].mean()), frequency)
    weights = np.concatenate(_weigh_postings(of_terms, question, statistics))
    scores = np.bincount(number, weights)
    top = np.argsort(-scores, kind="stable")[:most]
    names = together["session"][first[top]].tobytes().hex()
    units_found = [names[at : at + 32] for at in range(0, len(names), 32)]
    banks = [parts[part][0] for part in np.searchsorted(ends, first[top], side="right")]
    return RankedUnits(units_found, scores[top].tolist(), banks, are_cut=bool(unread) or len(first) > most)


def _weigh_postings(postings: Mapping[str, Postings], question: Question, statistics: Statistics) -> list[Scores]:
    """Return the weights of the postings of each term, on the scale of the sum."""
    # The highest sum includes words that the bank does not have: else a match of one other word would score 1.
    most = sum(
        count * statistics.idf(term)
        for term, count in question.words.items()
        if term in postings or not statistics.frequency.get(term)
    )
    return [
        question.words[term] * statistics.idf(term) / (most or 1.0) * _compute_bm25(found, statistics)
        for term, found in postings.items()
    ]


def _compute_bm25(found: Postings, statistics: Statistics) -> Scores:
    """Return tf / (tf + k1 (1 - b + b length / mean length)) of each posting.

    The length counts as LONGEST times the mean at most.
    """
    tf = found["tf"].astype(np.float64)
    relative = np.minimum(LONGEST, np.maximum(1, found["length"]) / max(1.0, statistics.mean_length))
    weight: Scores = tf / (tf + SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * relative))
    return weight


class _Places:
    """All places that have a posting or are next to one that has, numbered from 0 (slots).

    A place's key is its session's, plus seq + 1: neighbours differ by one, so their slots are adjacent.
    """

    def __init__(self, postings: Sequence[Postings]) -> None:
        self._together = np.concatenate(postings) if postings else np.empty(0, dtype=POSTING)
        sessions = np.ascontiguousarray(self._together["session"]).view(">u8").reshape(-1, 2)[:, 1].astype(np.uint64)
        seq = self._together["seq"].astype(np.int64)
        self._own_keys = _build_keys(sessions, seq)
        order = np.argsort(self._own_keys)
        in_order = self._own_keys[order]
        is_first = np.ones(len(in_order), dtype=np.bool_)
        np.not_equal(in_order[1:], in_order[:-1], out=is_first[1:])
        places, of_place = in_order[is_first], order[is_first]
        # Places that are one or two apart share the slots between them; each has a slot on either side.
        steps = np.minimum(np.diff(places), 3).astype(np.intp)
        taken = np.cumsum(np.append(1, steps))[: len(places)]
        self._keys = np.zeros(taken[-1] + 2 if len(taken) else 0, dtype=np.uint64)
        self._posting = np.zeros(len(self._keys), dtype=np.intp)
        for beside in (-1, 1, 0):
            self._keys[taken + beside] = places + np.uint64(beside % 2**64)
            self._posting[taken + beside] = of_place
        at = np.empty(len(order), dtype=np.intp)
        at[order] = taken[np.cumsum(is_first) - 1]
        slots = (at, np.where(seq > 0, at - 1, len(self)), np.where(seq >= 0, at + 1, len(self)))
        bounds = np.cumsum([0, *map(len, postings)])
        self._own, self._before, self._after = (
            [some[left:right] for left, right in pairwise(bounds)] for some in slots
        )

    def __len__(self) -> int:
        return len(self._keys)

    def with_context(self, nth: int, weights: Scores, of_before: float, of_after: float) -> Scores:
        """Return the nth term's weight at every place: its own, or the share of a neighbour's if it is larger."""
        result = self.own(nth, weights)
        # A message has one posting of a term, so no place is raised twice from one side.
        for places, share in ((self._before[nth], of_after), (self._after[nth], of_before)):
            result[places] = np.maximum(result[places], share * weights)
        return result[:-1]

    def own(self, nth: int, weights: Scores) -> Scores:
        """Return the nth term's own weight at every place, and a 0 at the end, the slot of missing places."""
        result = np.zeros(len(self) + 1)
        result[self._own[nth]] = weights
        return result

    def names(self, slots: Slots) -> list[Place]:
        """Return the places of these slots, read from postings that are there or beside them."""
        postings = self._posting[slots]
        sessions = self._together["session"][postings].tobytes()
        # Unsigned differences wrap around: seen as signed, they are -1, 0 or 1.
        distances = (self._keys[slots] - self._own_keys[postings]).astype(np.int64)
        seqs = (self._together["seq"][postings] + distances).tolist()
        return [(UUID(bytes=sessions[16 * n : 16 * n + 16]), seq) for n, seq in enumerate(seqs)]

    def slots(self, places: Sequence[Place]) -> tuple[Slots, Slots, Slots]:
        """Return the slots of these places and of their neighbours before and after; len(self) if missing."""
        sessions = np.frombuffer(b"".join([session.bytes for session, _ in places]), ">u8")[1::2].astype(np.uint64)
        seqs = np.array([seq for _, seq in places], dtype=np.int64)
        own, one = _build_keys(sessions, seqs), np.uint64(1)
        return self._find(own), self._find(own - one, seqs > 0), self._find(own + one, seqs >= 0)

    def _find(self, keys: Keys, there: NDArray[np.bool_] | None = None) -> Slots:
        """Return the slots of these keys; len(self) where there is none, or nothing is `there`."""
        slots = np.searchsorted(self._keys, keys)
        found = np.append(self._keys, np.uint64(0))[slots] == keys
        found &= slots < len(self)
        return np.where(found if there is None else found & there, slots, len(self))


def _build_keys(sessions: Keys, seqs: NDArray[np.int64]) -> Keys:
    """Return the keys of places; `sessions` are the last 8 bytes of ids, random enough in a uuid5 to stand for it.

    The factor keeps the places of sessions apart whose ids are next to each other.
    """
    return sessions * np.uint64(0x9E3779B97F4A7C15) + (seqs + 1).astype(np.uint64)
