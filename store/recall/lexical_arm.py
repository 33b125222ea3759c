"""Runs the lexical arm: reads the postings of the question's terms and scores them."""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
from sqlalchemy.ext.asyncio import AsyncConnection

from store.driver_rows import fetch_rows
from store.memory.reflections import KIND
from store.recall.as_of import correct_postings
from store.recall.filters import is_filtered
from store.recall.lexical import POSTING, Postings, choose_terms, score_postings, score_texts
from store.recall.lexical_queries import FILTERED, PLAIN
from store.recall.pool import CandidatePool
from store.recall.settings import RecallSettings
from store.recall.state import ArmResult, RecallState
from store.text.terms import analyse_text


class LexicalArm:
    """The arm of words: BM25 over the postings table, with the context of neighbouring messages."""

    name = "lexical"
    needs_vector = False

    def weight(self, _settings: RecallSettings) -> float:
        """Return 1: the weights of the other arms are relative to this one."""
        return 1.0

    async def find(self, connection: AsyncConnection, state: RecallState) -> ArmResult:
        """Return the best units that hold one of the question's readable terms, and the scores of all of them.

        Reflections, which are in no index, are scored by the words of their text.
        """
        postings = await _read_postings(connection, state)
        question, statistics = state.question, state.statistics
        scores = score_postings(postings, question, statistics)

        def score(pool: CandidatePool) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
            found = scores.of(pool.places, pool.answers, pool.unmuted)
            drawn = [index for index, unit in enumerate(pool.candidates) if unit.kind == KIND and not found[index]]
            if drawn:
                texts = [analyse_text(pool.candidates[index].text, question.rules[0]) for index in drawn]
                found[drawn] = score_texts(texts, postings.keys(), question, statistics)
            return found

        places = scores.best(state.settings.candidates)
        return ArmResult([unit for unit, seq in places if seq < 0], [place for place in places if place[1] >= 0], score)


async def _read_postings(connection: AsyncConnection, state: RecallState) -> Mapping[str, Postings]:
    terms = choose_terms(state.question.words, state.statistics, state.settings.postings)
    if not terms:
        return {}
    arguments = {"host": state.host, "bank": state.bank, "terms": terms, "postings": state.settings.postings}
    filtered = is_filtered(state.filters)
    found = await fetch_rows(connection, FILTERED if filtered else PLAIN, {**arguments, **state.filters})
    waiting = (
        {} if filtered else {term: state.pending_postings[term] for term in terms if term in state.pending_postings}
    )
    packed = defaultdict[str, bytes](bytes, waiting)
    unstored = state.unstored.words
    for term, some in (*found, *((term, unstored[term]) for term in terms if term in unstored)):
        packed[term] += some
    postings = {term: np.frombuffer(all_of_it, dtype=POSTING) for term, all_of_it in packed.items()}
    return correct_postings(postings, state.earlier, terms)
