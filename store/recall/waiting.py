"""Words that wait to be carried into the index of words: the newest units', and read once a recall.

Each such unit is opened for all terms together: while turns come in faster than words are carried, there are thousands.
"""

from sqlalchemy import text

#: One string of bytes a term (the fields of lexical.POSTING, in its order): thousands of rows cross in a millisecond.
PACKED = "string_agg(uuid_send(p.session_id) || int4send(p.seq) || int4send(p.tf) || int4send(p.length), '')"
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
#: The same for words that are related to what is asked; where very many units wait, some of them must do.
RELATED_WAITING = f"""
    select k.term, w.unit_id, {PLACE.format(of="w")}, cast(k.tf as int) as tf, w.length
      from (select s.* from (select w.unit_id, w.session_id, w.seq, w.length, w.terms from afterturn.unit_word_t w
                              where w.host_id = :host and w.bank_id = :bank and not w.posted limit 500) s
             where s.terms ?| cast(:near as text[]) limit 64) w
     cross join lateral jsonb_each_text(w.terms) k(term, tf)
     where k.term = any(cast(:near as text[]))"""  # noqa: S608 - put together from constants

#: Units of a bank that a recall is told of as come since the last one.
MOST_COME = 1000
_WAIT = "w.host_id = :host and w.bank_id = :bank and not w.posted"
_OPENED = f"w.unit_id, cast(cast(w.xmin as text) as bigint) as version, {PLACE.format(of='w')}, w.length, w.terms"
_SEEN = "cast(pg_snapshot_xmin(pg_current_snapshot()) as text)"
#: A look: all that wait are counted, and those told of that may have come since what was `seen` by the last one:
#: whatever was invisible then was written by no transaction older than all that were under way.
LOOK = f"""
    (select count(*) from afterturn.unit_word_t w where {_WAIT}) as units_waiting, {_SEEN} as seen,
    (select cast(json_agg(json_build_array(c.unit_id, c.version, c.session_id, c.seq, c.length, c.terms)) as text)
       from (select {_OPENED} from afterturn.unit_word_t w
              where {_WAIT} and age(w.xmin) <= age(cast(cast(cast(:seen as text) as xid8) as xid))
              limit {MOST_COME + 1}) c) as come"""  # noqa: S608 - put together from constants
#: The same columns for who keeps nothing: whether many wait.
NO_LOOK = f"""
    (select count(*) from (select from afterturn.unit_word_t w where {_WAIT} limit :many) w) as units_waiting,
    cast(null as text) as seen, cast(null as text) as come"""  # noqa: S608 - put together from constants
#: What a recall is told of the words it knows already: some units of each.
KNOWN = """
    select k.term, 0 as df, array_agg(k.unit_id) as units, cast(null as bytea) as packed
      from unnest(cast(:known_terms as text[]), cast(:known_units as uuid[])) k(term, unit_id) group by k.term"""
ALL_OPENED = text(f"""
    select w.unit_id, cast(cast(w.xmin as text) as bigint) as version, {PLACE.format(of="w")}, w.length,
           cast(w.terms as text) as terms, {_SEEN} as seen
      from afterturn.unit_word_t w where {_WAIT} limit :most""")  # noqa: S608 - put together from constants
STILL = text(f"select w.unit_id from afterturn.unit_word_t w where {_WAIT}")  # noqa: S608 - put together from constants
