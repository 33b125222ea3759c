"""Reads pending words, not yet in the word index, once a recall.

Each such unit is opened for all terms together: while turns come in faster than words are carried, there are thousands.
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

WORD = UNIT_WORD.alias("w")
#: The terms that are asked for.
_TERMS = bindparam("terms", type_=ARRAY(Text))
_ZERO = literal_column("0", Integer)


def pack_postings(posting: FromClause) -> ColumnElement[bytes]:
    """Return one string of bytes a term (the fields of lexical.POSTING, in its order).

    So thousands of rows cross in a millisecond.
    """
    packed: ColumnElement[bytes] = func.string_agg(
        func.uuid_send(posting.c.session_id)
        .concat(func.int4send(posting.c.seq))
        .concat(func.int4send(posting.c.tf))
        .concat(func.int4send(posting.c.length)),
        literal_column("''"),
    )
    return packed


def pack_postings_alone(posting: FromClause) -> ColumnElement[bytes]:
    """Return the same of units that stand alone (the fields of lexical.ALONE)."""
    counts = cast(posting.c.tf, BigInteger).bitwise_lshift(literal_column("32", Integer)).bitwise_or(posting.c.length)
    packed: ColumnElement[bytes] = func.string_agg(
        func.uuid_send(posting.c.unit_id).concat(func.int8send(counts)), literal_column("''")
    )
    return packed


def find_place(of: FromClause) -> tuple[ColumnElement[UUID], ColumnElement[int]]:
    """Return where a posting stands, as `session_id` and `seq`: a unit that is not a message stands alone."""
    return (
        case((of.c.seq.is_(None), of.c.unit_id), else_=of.c.session_id).label("session_id"),
        func.coalesce(of.c.seq, literal_column("-1", Integer)).label("seq"),
    )


def open_words(word: FromClause) -> FromClause:
    """Return the `terms` of a unit's words, unpacked once for all that are asked for."""
    unpacked = word.c.terms.op("#>", return_type=JSONB())(literal_column("cast(array[] as text[])"))
    return select(unpacked.label("terms")).correlate(word).offset(_ZERO).lateral("o")


def match_terms(opened: FromClause) -> FromClause:
    """Return which of the asked terms stand in a unit, `term`, and how often, `tf`."""
    asked = func.unnest(_TERMS).table_valued(column("term", Text)).render_derived("a")
    times = cast(opened.c.terms.op("->>")(asked.c.term), Integer).label("tf")
    return select(asked.c.term, times).where(opened.c.terms.has_key(asked.c.term)).offset(_ZERO).lateral("m")


def select_waiting(in_banks: ColumnElement[bool], words: FromClause = WORD) -> Select[*tuple[Any, ...]]:
    """Select the postings that would stand in the index for the asked terms.

    `in_banks` says of which banks rows of WORD are read; `words` may join something to them.
    """
    opened = open_words(WORD)
    match = match_terms(opened)
    return (
        select(match.c.term, WORD.c.unit_id, *find_place(WORD), match.c.tf, WORD.c.length)
        .select_from(words)
        .join(opened, true())
        .join(match, true())
        .where(in_banks, ~WORD.c.posted, opened.c.terms.has_any(_TERMS))
    )
