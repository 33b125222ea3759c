"""Reads pending words, not yet in the word index, once a recall.

Each such unit is opened for all terms together: while turns come in faster than words are carried, there are thousands.
"""

from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
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
_TERMS = bindparam("terms", type_=ARRAY(Text))


def pack_postings(posting: FromClause) -> ColumnElement[bytes]:
    """Return one string of bytes a term (the fields of lexical.POSTING, in its order).

    So thousands of rows cross in a millisecond.
    """
    fields = (
        func.uuid_send(posting.c.session_id)
        .concat(func.int4send(posting.c.seq))
        .concat(func.int4send(posting.c.tf))
        .concat(func.int4send(posting.c.length))
    )
    packed: ColumnElement[bytes] = func.string_agg(fields, literal_column("''"))
    return packed


def find_place(of: FromClause) -> tuple[ColumnElement[UUID], ColumnElement[int]]:
    """Return where a posting stands, as `session_id` and `seq`: a unit that is not a message stands alone."""
    return (
        case((of.c.seq.is_(None), of.c.unit_id), else_=of.c.session_id).label("session_id"),
        func.coalesce(of.c.seq, literal_column("-1")).label("seq"),
    )


def select_waiting(in_banks: ColumnElement[bool], words: FromClause = WORD) -> Select[*tuple[Any, ...]]:
    """Select the postings that would stand in the index for `terms`.

    `in_banks` says of which banks the rows of WORD are; `words` may join something to them.
    """
    # One look at what is kept compressed.
    opened = (
        select(WORD.c.terms.op("#>", return_type=JSONB())(literal_column("'{}'")).label("terms"))
        .correlate(WORD)
        .offset(literal_column("0"))
        .lateral("o")
    )
    asked = func.unnest(_TERMS).table_valued(column("term", Text)).render_derived("a")
    held = select(asked.c.term).where(opened.c.terms.has_key(asked.c.term)).offset(literal_column("0")).lateral("m")
    times = cast(opened.c.terms.op("->>")(held.c.term), Integer).label("tf")
    return (
        select(held.c.term, WORD.c.unit_id, *find_place(WORD), times, WORD.c.length)
        .select_from(words)
        .join(opened, true())
        .join(held, true())
        .where(in_banks, ~WORD.c.posted, opened.c.terms.has_any(_TERMS))
    )


#: One string of bytes a term (the fields of lexical.POSTING, in its order): thousands of rows cross in a millisecond.
PACKED = "string_agg(uuid_send(p.session_id) || int4send(p.seq) || int4send(p.tf) || int4send(p.length), '')"
#: The same of units that stand alone: the fields of lexical.ALONE.
PACKED_ALONE = "string_agg(uuid_send(p.unit_id) || int8send((cast(p.tf as bigint) << 32) | p.length), '')"
#: Where a posting stands: a unit that is not a message stands alone.
PLACE = """case when {of}.seq is null then {of}.unit_id else {of}.session_id end as session_id,
           coalesce({of}.seq, -1) as seq"""
#: The postings that would stand in the index for these terms; `{unit}` may join the unit.
WAITING = f"""
    select m.term, w.unit_id, {PLACE.format(of="w")}, cast(o.terms->>m.term as int) as tf, w.length
      from afterturn.unit_word_t w {{unit}}
     cross join lateral (select w.terms #> cast(array[] as text[]) as terms offset 0) o
     cross join lateral (select a.term from unnest(cast(:terms as text[])) a(term) where o.terms ? a.term
                        offset 0) m
     where w.host_id = :host and w.bank_id = :bank and not w.posted
       and o.terms ?| cast(:terms as text[])"""  # noqa: S608 - put together from constants
