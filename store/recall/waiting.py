"""Reads pending words, not yet in the word index, once a recall.

Each such unit is opened for all terms together: while turns come in faster than words are carried, there are thousands.
"""

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
