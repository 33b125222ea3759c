"""The arm that knows words: reads the postings of the question's terms and scores them."""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.recall.arms import Found, Search
from store.recall.earlier import reworded
from store.recall.filters import conditions, is_filtered
from store.recall.lexical import POSTING, Postings, readable_terms, score
from store.recall.pool import Pool
from store.recall.settings import RecallSettings

# One string of bytes a term (the fields of POSTING, in its order): thousands of rows cross in a millisecond.
# The limit holds back a term that turns out commoner than its statistics said. The words of the newest units wait
# beside them to be carried into the index of words, and are a term's second string. Each such unit is opened once for
# all terms: while turns come in faster than words are carried, there may be thousands.
PACKED = "string_agg(uuid_send(p.session_id) || int4send(p.seq) || int4send(p.tf) || int4send(p.length), '')"
POSTINGS = f"""
    select q.term, p.packed
      from unnest(cast(:terms as text[])) q(term),
           lateral (select {PACKED} as packed
                      from (select case when p.seq is null then p.unit_id else p.session_id end as session_id,
                                   coalesce(p.seq, -1) as seq, p.tf, p.length
                              from afterturn.posting_t p {{posted}}
                             where p.host_id = :host and p.bank_id = :bank and p.term = q.term
                             limit :postings) p) p
     where p.packed is not null
     union all
    select p.term, {PACKED}
      from (select m.term, case when w.seq is null then w.unit_id else w.session_id end as session_id,
                   coalesce(w.seq, -1) as seq, cast(o.terms->>m.term as int) as tf, w.length
              from afterturn.unit_word_t w {{waiting}}
             cross join lateral (select w.terms #> cast(array[] as text[]) as terms offset 0) o
             cross join lateral (select a.term from unnest(cast(:terms as text[])) a(term) where o.terms ? a.term
                                offset 0) m
             where w.host_id = :host and w.bank_id = :bank and not w.posted
               and o.terms ?| cast(:terms as text[])) p
     group by p.term"""  # noqa: S608 - put together from constants
# `limit` keeps each look-up one probe of an index: joined at large, the whole bank would be read for a few words.
UNIT = f"""
    cross join lateral (select from afterturn.agent_memory_unit_t u
                         where u.host_id = :host and u.bank_id = :bank and u.unit_id = {{of}}.unit_id
                           and {conditions("u")} limit 1) u"""
PLAIN = text(POSTINGS.format(waiting="", posted=""))
FILTERED = text(POSTINGS.format(waiting=UNIT.format(of="w"), posted=UNIT.format(of="p")))


class LexicalArm:
    """BM25 over the postings table, with the context of neighbouring messages."""

    name = "lexical"

    def weight(self, _settings: RecallSettings) -> float:
        """Words are the measure; the other arms are weighed against them."""
        return 1.0

    async def find(self, connection: AsyncConnection, search: Search) -> Found:
        """Score everything that holds one of the question's readable terms."""
        postings = await _read(connection, search)
        scores = score(postings, search.question, search.statistics, search.settings.ranking, search.related)

        def view(pool: Pool) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
            return scores.of(pool.places, pool.answers)

        places = scores.best(search.settings.candidates)
        return Found([unit for unit, seq in places if seq < 0], [place for place in places if place[1] >= 0], view)


async def _read(connection: AsyncConnection, search: Search) -> Mapping[str, Postings]:
    asked = {*search.question.words, *search.question.pairs}
    terms = readable_terms(asked, search.related, search.statistics, search.settings.postings)
    if not terms:
        return {}
    arguments = {"host": search.host, "bank": search.bank, "terms": terms, "postings": search.settings.postings}
    filtered = is_filtered(search.filters)
    found = await connection.execute(
        FILTERED if filtered else PLAIN, {**arguments, **search.filters} if filtered else arguments
    )
    packed = defaultdict[str, bytes](bytes)
    for term, some in found:
        packed[term] += some
    postings = {term: np.frombuffer(all_of_it, dtype=POSTING) for term, all_of_it in packed.items()}
    return reworded(postings, search.earlier, terms)
