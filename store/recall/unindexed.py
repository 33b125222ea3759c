"""Units that are not in the word or vector index yet: recall compares them too.

Those are facts of turns that no worker has read, and what has ended since the moment a question is about. Their words
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

#: One posting, as lexical.POSTING has it.
_POSTING = Struct(">16siii")


def pack_posting(unit: UUID, count: int, length: int) -> bytes:
    """Return the posting of a term that stands `count` times in a unit of `length` words, which stands alone."""
    return _POSTING.pack(unit.bytes, -1, count, length)


def join_unindexed(first: Unindexed, second: Unindexed) -> Unindexed:
    """Return both, these first."""
    terms = first.words.keys() | second.words.keys()
    words = {term: first.words.get(term, b"") + second.words.get(term, b"") for term in terms}
    return Unindexed({**first.candidates, **second.candidates}, words, first.replaced | second.replaced)


def build_tail(state: RecallState) -> list[Fresh]:
    """Return what is embedded with the question: these units, and texts without a vector; the own session's first.

    Of these units the first, as many as the tail has room for.
    """
    own = filters.own_session(state.query, state.bank)
    first = [*state.unindexed.candidates.values()][: state.settings.fresh_tail_chunks]
    said = [Fresh(one.unit_id, one.text[:CHARACTERS], own=own is not None and one.session_id == own) for one in first]
    return sorted([*said, *state.fresh], key=lambda fresh: not fresh.own)


def add_unindexed(state: RecallState, pool: CandidatePool, found: Collection[UUID]) -> CandidatePool:
    """Add to a pool what is in no index and was `found`."""
    units = [one for one in state.unindexed.candidates.values() if one.unit_id in found]
    if not units:
        return pool
    vector = np.zeros(1, np.float32) if state.vector is None else state.vector
    nothing = np.zeros_like(vector)
    own = np.stack([state.tail.get(one.unit_id, nothing) for one in units])
    alone = compute_products(vector, own, np.zeros_like(own), np.zeros_like(own))
    return CandidatePool([*pool.candidates, *units], pool.products.and_those_of(alone))
