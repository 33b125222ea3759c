"""Runs the lexical arm: reads the postings of the question's terms and scores them."""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
from sqlalchemy import (
    ARRAY,
    FromClause,
    Integer,
    Select,
    Text,
    bindparam,
    column,
    func,
    select,
    true,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from store import schema
from store.driver_rows import fetch_rows
from store.memory.reflections import KIND
from store.recall.as_of import correct_postings
from store.recall.filters import filter_conditions, is_filtered
from store.recall.lexical import POSTING, Postings, choose_terms, score_postings, score_texts
from store.recall.pending_word_queries import WORD, find_place, pack_postings, select_pending_postings
from store.recall.pool import CandidatePool
from store.recall.state import ArmResult, RecallState
from store.schema import UNIT, in_bank
from store.sql_constants import ONE
from store.text.terms import analyse_text

_POSTING = schema.POSTING.alias("p")


def _pass_filters(of: FromClause) -> FromClause:
    """Return rows of words joined to their units, if these pass the filters.

    `limit` keeps each look-up one probe of an index: a plain join would read the whole bank for a few words.
    """
    unit = UNIT.alias("u")
    passing = select(unit.c.unit_id).where(in_bank(unit), unit.c.unit_id == of.c.unit_id, filter_conditions(unit))
    return of.join(passing.limit(ONE).lateral("u"), true())


def _select_posted(postings: FromClause) -> Select[str, bytes]:
    """Select the postings of `terms`; the limit cuts those of a term that is commoner than its statistics say."""
    term = func.unnest(bindparam("terms", type_=ARRAY(Text))).table_valued(column("term", Text)).render_derived("q")
    read = (
        select(*find_place(_POSTING), _POSTING.c.tf, _POSTING.c.length)
        .select_from(postings)
        .where(in_bank(_POSTING), _POSTING.c.term == term.c.term)
        .limit(bindparam("postings", type_=Integer))
        .correlate(term)
        .subquery("p")
    )
    posted = select(pack_postings(read).label("packed")).lateral("p")
    return select(term.c.term, posted.c.packed).join_from(term, posted, true()).where(posted.c.packed.is_not(None))


PLAIN = _select_posted(_POSTING)
_WAITING = select_pending_postings(in_bank(WORD), _pass_filters(WORD)).subquery("p")
# Preparation has read the pending words, but without the question's filters, so here they are read again.
FILTERED = union_all(
    _select_posted(_pass_filters(_POSTING)),
    select(_WAITING.c.term, pack_postings(_WAITING).label("packed")).group_by(_WAITING.c.term),
)


class LexicalArm:
    """The arm of words: BM25 over the postings table, with the context of neighbouring messages."""

    name = "lexical"
    weight = 1.0
    needs_vector = False

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
    arguments = {**state.place, "terms": terms, "postings": state.settings.postings}
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
