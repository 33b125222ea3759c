"""Builds the queries of the lexical arm: the postings of the question's terms."""

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

from store.recall.filters import filter_conditions
from store.recall.pending_word_queries import WORD, find_place, pack_postings, select_pending_postings
from store.schema import POSTING, UNIT, in_bank
from store.sql_constants import ONE

_POSTING = POSTING.alias("p")


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
