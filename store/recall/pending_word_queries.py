"""Builds queries of pending words, which are not in the word index yet.

The terms of each such unit are unpacked once for all asked terms: while turns arrive faster than workers index words,
there are thousands of these units.
"""

from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    FromClause,
    Integer,
    Select,
    Text,
    bindparam,
    case,
    cast,
    column,
    func,
    literal_column,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB

from store.schema import UNIT_WORD
from store.sql_constants import ZERO, inline

WORD = UNIT_WORD.alias("w")
#: The question's terms.
_TERMS = bindparam("terms", type_=ARRAY(Text))


def pack_postings(posting: FromClause) -> ColumnElement[bytes]:
    """Return an aggregate that packs postings into one byte string (the fields of lexical.POSTING, in its order).

    So thousands of postings are sent in a millisecond.
    """
    packed: ColumnElement[bytes] = func.string_agg(
        func.uuid_send(posting.c.session_id)
        .concat(func.int4send(posting.c.seq))
        .concat(func.int4send(posting.c.tf))
        .concat(func.int4send(posting.c.length)),
        inline(""),
    )
    return packed


def pack_postings_alone(posting: FromClause) -> ColumnElement[bytes]:
    """Return an aggregate that packs postings without their places in sessions (the fields of lexical.ALONE)."""
    counts = cast(posting.c.tf, BigInteger).bitwise_lshift(inline(32)).bitwise_or(posting.c.length)
    packed: ColumnElement[bytes] = func.string_agg(
        func.uuid_send(posting.c.unit_id).concat(func.int8send(counts)), inline("")
    )
    return packed


def find_place(of: FromClause) -> tuple[ColumnElement[UUID], ColumnElement[int]]:
    """Return the place of a posting, `session_id` and `seq`; for a unit that is not a message, its own id and -1."""
    return (
        case((of.c.seq.is_(None), of.c.unit_id), else_=of.c.session_id).label("session_id"),
        func.coalesce(of.c.seq, inline(-1)).label("seq"),
    )


def open_words(word: FromClause) -> FromClause:
    """Return the `terms` of a unit, unpacked once for all asked terms."""
    unpacked = word.c.terms.op("#>", return_type=JSONB())(literal_column("cast(array[] as text[])"))
    return select(unpacked.label("terms")).correlate(word).offset(ZERO).lateral("o")


def match_terms(opened: FromClause) -> FromClause:
    """Return the asked terms that a unit has, `term`, and how often, `tf`."""
    asked = func.unnest(_TERMS).table_valued(column("term", Text)).render_derived("a")
    times = cast(opened.c.terms.op("->>")(asked.c.term), Integer).label("tf")
    return select(asked.c.term, times).where(opened.c.terms.has_key(asked.c.term)).offset(ZERO).lateral("m")


def select_pending_postings(in_banks: ColumnElement[bool], words: FromClause = WORD) -> Select[*tuple[Any, ...]]:
    """Select the pending postings of the asked terms.

    `in_banks` is the condition that selects the banks of WORD; `words` may join other tables to WORD.
    """
    opened = open_words(WORD)
    match = match_terms(opened)
    return (
        select(match.c.term, WORD.c.bank_id, WORD.c.unit_id, *find_place(WORD), match.c.tf, WORD.c.length)
        .select_from(words)
        .join(opened, true())
        .join(match, true())
        .where(in_banks, ~WORD.c.posted, opened.c.terms.has_any(_TERMS))
    )
