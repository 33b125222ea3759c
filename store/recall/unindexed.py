"""Adds units to a recall that are in neither the word index nor the vector index.

They are facts of turns that no worker has extracted yet, and units that ended after the question's moment. Their words
and vectors are made with the question.
"""

from collections.abc import Collection
from struct import Struct
from uuid import UUID

import numpy as np

from store.recall import filters
from store.recall.dense import compute_products
from store.recall.pool import CandidatePool
from store.recall.state import RecallState, Unindexed
from store.recall.tail import CHARACTERS, Fresh

#: One posting, in the format of lexical.POSTING.
_POSTING = Struct(">16siii")


def pack_posting(unit: UUID, count: int, length: int) -> bytes:
    """Return the posting of a term that stands `count` times in a unit of `length` words that is not a message."""
    return _POSTING.pack(unit.bytes, -1, count, length)


def join_unindexed(first: Unindexed, second: Unindexed) -> Unindexed:
    """Return the units and words of both, those of `first` first."""
    terms = first.words.keys() | second.words.keys()
    words = {term: first.words.get(term, b"") + second.words.get(term, b"") for term in terms}
    return Unindexed({**first.candidates, **second.candidates}, words, first.replaced | second.replaced)


def build_tail(state: RecallState) -> list[Fresh]:
    """Return the texts that are embedded with the question: unindexed units and fresh texts; the own session's first.

    Of the unindexed units the first are taken, as many as the tail has room for.
    """
    own = filters.own_session(state.query, state.bank)
    first = [*state.unindexed.candidates.values()][: state.settings.fresh_tail_chunks]
    said = [Fresh(one.unit_id, one.text[:CHARACTERS], own=own is not None and one.session_id == own) for one in first]
    return sorted([*said, *state.unembedded], key=lambda fresh: not fresh.own)


def add_unindexed(state: RecallState, pool: CandidatePool, found: Collection[UUID]) -> CandidatePool:
    """Return the pool with the unindexed units among the ids `found`."""
    units = [one for one in state.unindexed.candidates.values() if one.unit_id in found]
    if not units:
        return pool
    vector = np.zeros(1, np.float32) if state.vector is None else state.vector
    nothing = np.zeros_like(vector)
    own = np.stack([state.tail_vectors.get(one.unit_id, nothing) for one in units])
    alone = compute_products(vector, own, np.zeros_like(own), np.zeros_like(own))
    return CandidatePool([*pool.candidates, *units], pool.products.and_those_of(alone))
