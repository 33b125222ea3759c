"""Adds units to a recall that are in neither the word index nor the vector index.

They are facts of turns that no worker has extracted yet, and units that ended after the question's moment. Their words
and vectors are made with the question.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from struct import Struct
from uuid import UUID

import numpy as np

from store.derived.postings import UnitTerms
from store.recall import filters
from store.recall.dense import compute_products
from store.recall.pool import CandidatePool
from store.recall.question import Question
from store.recall.state import RecallState, UnstoredUnits
from store.recall.tail import CHARACTERS, UnembeddedText
from store.text.terms import Terms

#: One posting, in the format of lexical.POSTING.
_POSTING = Struct(">16siii")


def pack_words(units: Iterable[tuple[UUID, Terms | UnitTerms]], question: Question) -> dict[str, bytes]:
    """Return the postings of units, which are no messages, for the question's terms, as the index would hold them."""
    packed, asked = defaultdict[str, bytes](bytes), question.words.keys()
    for unit, words in units:
        for term in asked & words.counts.keys():
            packed[term] += _POSTING.pack(unit.bytes, -1, words.counts[term], words.length)
    return dict(packed)


def join_unstored(first: UnstoredUnits, second: UnstoredUnits) -> UnstoredUnits:
    """Return the units and words of both, those of `first` first."""
    terms = first.words.keys() | second.words.keys()
    words = {term: first.words.get(term, b"") + second.words.get(term, b"") for term in terms}
    return UnstoredUnits({**first.candidates, **second.candidates}, words, first.replaced | second.replaced)


def list_texts_to_embed(state: RecallState) -> list[UnembeddedText]:
    """Return the texts that are embedded with the question: unstored units and fresh texts; the own session's first.

    Of the unstored units the first are taken, as many as the tail has room for.
    """
    own = filters.own_session(state.query, state.bank)
    first = [*state.unstored.candidates.values()][: state.settings.fresh_tail_chunks]
    said = [
        UnembeddedText(one.unit_id, one.text[:CHARACTERS], own=own is not None and one.session_id == own)
        for one in first
    ]
    return sorted([*said, *state.unembedded], key=lambda fresh: not fresh.own)


def add_unstored(state: RecallState, pool: CandidatePool, found: Collection[UUID]) -> CandidatePool:
    """Return the pool with the unstored units among the ids `found`."""
    units = [one for one in state.unstored.candidates.values() if one.unit_id in found]
    if not units:
        return pool
    vector = np.zeros(1, np.float32) if state.vector is None else state.vector
    nothing = np.zeros_like(vector)
    own = np.stack([state.tail_vectors.get(one.unit_id, nothing) for one in units])
    alone = compute_products(vector, own, np.zeros_like(own), np.zeros_like(own))
    return CandidatePool([*pool.candidates, *units], pool.products.and_those_of(alone))
