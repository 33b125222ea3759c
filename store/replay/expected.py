"""Queries of actual and expected rows of the derived tables.

Work that is still to be done counts for neither side: links that are not counted, words that wait, forgotten units
that are still counted, names that wait for a refresh, turns whose projection is not done.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from sqlalchemy import (
    CompoundSelect,
    Select,
    and_,
    case,
    exists,
    false,
    func,
    or_,
    select,
    true,
    union_all,
)

from store.derived.facts import STATED_UNIT, divide_into_stretches, find_end, find_next_statement, select_stated
from store.derived.projection import select_first_links
from store.replay.digest import Rows, in_scope, select_rows_as_json
from store.schema import FACT, FORGOTTEN_UNIT, LEDGER, TURN, UNIT, UNIT_ENTITY, same_bank


@dataclass(frozen=True, slots=True)
class Expected:
    """Actual and expected rows of a table: two queries of `key` and of the row as jsonb, `row_json`.

    `shown` are the columns that identify a row, if not the whole key.
    """

    key: tuple[str, ...]
    live: str
    derived: str | Select[*tuple[Any, ...]]
    shown: tuple[str, ...] | None = None

    @property
    def sides(self) -> tuple[Rows, Rows]:
        """Both queries, with the parameters `host`, `bank`, `many` (store/derived/facts.py) and `languages`."""
        derived = select_rows_as_json(self.derived, self.key) if isinstance(self.derived, str) else self.derived
        return select_rows_as_json(self.live, self.key), derived


# Where the log has no digest of a turn's body, the guard's own is accepted. Of the stages it is compared only that the
# turn has ended (in the guard) or still has rows in the ledger.
_TURNS = Expected(
    ("host_id", "turn_id"),
    live="""
        select r.host_id, r.turn_id,
               jsonb_build_object('bank_id', r.bank_id, 'session_id', r.session_id, 'user_id', r.user_id,
                                  'digest', encode(r.digest, 'hex'), 'position', r.position,
                                  'accepted_at', r.accepted_at,
                                  'ended', r.ended is not null or exists (
                                      select from afterturn.ledger_t l
                                       where l.host_id = r.host_id and l.turn_id = r.turn_id and l.item_id = r.turn_id))
                   as row_json
          from afterturn.turn_t r where afterturn.in_scope(r.host_id, r.bank_id, :host, :bank)""",
    derived="""
        select r.host_id, r.turn_id,
               jsonb_build_object('bank_id', r.bank_id, 'session_id', r.session_id, 'user_id', r.user_id,
                                  'digest', encode(coalesce(r.digest, t.digest), 'hex'), 'position', r.position,
                                  'accepted_at', r.accepted_at, 'ended', true) as row_json
          from afterturn.logged_turns(cast(:host as uuid), cast(:bank as uuid)) r
          left join afterturn.turn_t t on t.host_id = r.host_id and t.turn_id = r.turn_id""",
)


def _derive_pairs() -> Select[*tuple[Any, ...]]:
    link, unit = UNIT_ENTITY.alias("l"), UNIT.alias("u")
    links = select_first_links(link, in_scope(link), link.c.counted).cte("links").prefix_with("materialized")
    one, other = links.alias("one"), links.alias("other")
    row_json = func.jsonb_build_object("cooccur_count", func.count(), "last_cooccurred", func.max(unit.c.event_date))
    pair = one.c.host_id, one.c.bank_id, one.c.entity_id, other.c.entity_id
    return (
        select(*pair[:2], pair[2].label("entity_id_1"), pair[3].label("entity_id_2"), row_json.label("row_json"))
        .join_from(one, other, same_bank(one, other, "unit_id"))
        .join(unit, same_bank(one, unit, "unit_id"))
        .where(one.c.entity_id < other.c.entity_id)
        .group_by(*pair)
    )


_PAIRS = Expected(
    ("host_id", "bank_id", "entity_id_1", "entity_id_2"),
    live="""
        select r.host_id, r.bank_id, r.entity_id_1, r.entity_id_2,
               jsonb_build_object('cooccur_count', r.cooccur_count, 'last_cooccurred', r.last_cooccurred) as row_json
          from afterturn.agent_memory_entity_cooccur_t r
           where afterturn.in_scope(r.host_id, r.bank_id, :host, :bank)""",
    derived=_derive_pairs(),
)
_MENTIONS = Expected(
    ("host_id", "bank_id", "entity_id"),
    live="""
        select r.host_id, r.bank_id, r.entity_id, jsonb_build_object('mention_count', r.mention_count) as row_json
          from afterturn.agent_memory_entity_t r where afterturn.in_scope(r.host_id, r.bank_id, :host, :bank)""",
    derived="""
        select r.host_id, r.bank_id, r.entity_id,
               jsonb_build_object('mention_count', coalesce(c.mentions, 0)) as row_json
          from afterturn.agent_memory_entity_t r
          left join (select l.host_id, l.bank_id, l.entity_id, sum(l.mentions) as mentions
                       from afterturn.agent_memory_unit_entity_t l
                        where afterturn.in_scope(l.host_id, l.bank_id, :host, :bank) and l.counted group by 1, 2, 3) c
            on c.host_id = r.host_id and c.bank_id = r.bank_id and c.entity_id = r.entity_id
         where afterturn.in_scope(r.host_id, r.bank_id, :host, :bank)""",
)
_NAMES = Expected(
    ("host_id", "bank_id", "entity_id", "name", "kind"),
    live="""
        select r.host_id, r.bank_id, r.entity_id, r.name, r.kind, jsonb_build_object('mentions', r.mentions) as row_json
          from afterturn.entity_name_t r
           where afterturn.in_scope(r.host_id, r.bank_id, :host, :bank) and r.mentions <> 0""",
    derived="""
        select l.host_id, l.bank_id, l.entity_id, coalesce(l.name, '') as name, coalesce(l.kind, '') as kind,
               jsonb_build_object('mentions', sum(l.mentions)) as row_json
          from afterturn.agent_memory_unit_entity_t l
           where afterturn.in_scope(l.host_id, l.bank_id, :host, :bank) and l.counted
         group by 1, 2, 3, 4, 5 having sum(l.mentions) <> 0""",
    shown=("host_id", "bank_id", "entity_id"),
)
# The usual language has a row only while words still follow a change to it.
_LANGUAGES = Expected(
    ("host_id", "bank_id"),
    live="""
        select r.host_id, r.bank_id, jsonb_build_object('language', r.language) as row_json
          from afterturn.bank_language_t r
           where afterturn.in_scope(r.host_id, r.bank_id, :host, :bank)
             and r.language = any(cast(:languages as text[]))""",
    derived="""
        select r.host_id, r.bank_id, jsonb_build_object('language', r.disposition->>'language') as row_json
          from afterturn.agent_memory_bank_t r
         where afterturn.in_scope(r.host_id, r.bank_id, :host, :bank)
           and r.active and r.disposition->>'language' = any(cast(:languages as text[]))""",
)
# Words of a unit that does not live are wrong; those of living units are compared in `derived.py`.
_WORDS_OF_NOTHING = Expected(
    ("host_id", "bank_id", "unit_id"),
    live="""
        select r.host_id, r.bank_id, r.unit_id, jsonb '{}' as row_json
          from afterturn.unit_word_t r
          left join afterturn.agent_memory_unit_t u
            on u.host_id = r.host_id and u.bank_id = r.bank_id and u.unit_id = r.unit_id
         where afterturn.in_scope(r.host_id, r.bank_id, :host, :bank) and u.active is not true""",
    derived="""
        select r.host_id, r.bank_id, r.unit_id, jsonb '{}' as row_json
          from afterturn.unit_word_t r where false and afterturn.in_scope(r.host_id, r.bank_id, :host, :bank)""",
)
_POSTINGS = Expected(
    ("host_id", "bank_id", "term", "unit_id"),
    live="""
        select r.host_id, r.bank_id, r.term, r.unit_id,
               jsonb_build_object('session_id', r.session_id, 'seq', r.seq, 'tf', r.tf, 'length', r.length) as row_json
          from afterturn.posting_t r where afterturn.in_scope(r.host_id, r.bank_id, :host, :bank)""",
    derived="""
        select w.host_id, w.bank_id, t.term, w.unit_id,
               jsonb_build_object('session_id', w.session_id, 'seq', w.seq, 'tf', cast(t.tf as int),
                                  'length', w.length) as row_json
          from afterturn.unit_word_t w, jsonb_each_text(w.terms) t(term, tf)
           where afterturn.in_scope(w.host_id, w.bank_id, :host, :bank) and w.posted""",
)
# A forgotten unit is counted until the projection stage takes it back.
_TERMS = Expected(
    ("host_id", "bank_id", "term"),
    live="""
        select r.host_id, r.bank_id, r.term, jsonb_build_object('df', r.df) as row_json
          from afterturn.term_t r where afterturn.in_scope(r.host_id, r.bank_id, :host, :bank)""",
    derived="""
        select c.host_id, c.bank_id, c.term, jsonb_build_object('df', count(*)) as row_json
          from (select w.host_id, w.bank_id, t.term from afterturn.unit_word_t w, jsonb_object_keys(w.terms) t(term)
                 where afterturn.in_scope(w.host_id, w.bank_id, :host, :bank) and w.posted
                union all
                select r.host_id, r.bank_id, t.term from afterturn.forgotten_unit_t r, unnest(r.terms) t(term)
                 where afterturn.in_scope(r.host_id, r.bank_id, :host, :bank)) c
         group by 1, 2, 3""",
)
_STATISTICS = Expected(
    ("host_id", "bank_id"),
    live="""
        select r.host_id, r.bank_id, jsonb_build_object('units', r.units, 'tokens', r.tokens) as row_json
          from afterturn.bank_statistics_t r
           where afterturn.in_scope(r.host_id, r.bank_id, :host, :bank) and (r.units, r.tokens) <> (0, 0)""",
    derived="""
        select c.host_id, c.bank_id, jsonb_build_object('units', sum(c.units), 'tokens', sum(c.tokens)) as row_json
          from (select w.host_id, w.bank_id, 1 as units, w.length as tokens
                  from afterturn.unit_word_t w where afterturn.in_scope(w.host_id, w.bank_id, :host, :bank) and w.posted
                union all
                select r.host_id, r.bank_id, r.units, r.tokens from afterturn.forgotten_unit_t r
                    where afterturn.in_scope(r.host_id, r.bank_id, :host, :bank)) c
         group by 1, 2 having (sum(c.units), sum(c.tokens)) <> (0, 0)""",
)


def _select_fact_rows() -> CompoundSelect[*tuple[Any, ...]]:
    """Return the query of the facts that the table should hold.

    A fact of a turn that is still to be projected may be there already; a forgotten one is there, with its place in
    time, until the projection stage removes it.
    """
    unit, turn, work = UNIT.alias("x"), TURN.alias("g"), LEDGER.alias("l")
    there, gone = FACT.alias("t"), FORGOTTEN_UNIT.alias("n")
    stated = select_stated(in_scope(STATED_UNIT)).subquery("s")
    row = FACT.alias("r")
    projected = and_(
        exists().where(turn.c.host_id == unit.c.host_id, turn.c.turn_id == unit.c.turn_id),
        ~exists().where(
            work.c.host_id == unit.c.host_id,
            work.c.turn_id == unit.c.turn_id,
            work.c.stage == "projection",
            work.c.status != "done",
        ),
    )
    living = (
        select(stated, false().label("gone"))
        .join_from(stated, unit, same_bank(unit, stated, "unit_id"))
        .join(there, same_bank(there, stated, "unit_id"), isouter=True)
        .where(or_(there.c.unit_id.is_not(None), projected), ~exists().where(same_bank(gone, stated, "unit_id")))
    )
    forgotten = select(*(row.c[column.name] for column in stated.c), true().label("gone")).where(
        in_scope(row), exists().where(same_bank(gone, row, "unit_id"))
    )
    return union_all(living, forgotten)


def _derive_facts() -> Select[*tuple[Any, ...]]:
    identity = ("host_id", "bank_id", "line", "subject", "key")
    found = divide_into_stretches(_select_fact_rows().subquery("facts"), identity)
    fact, begun = found.lined.alias("f"), found.begun.alias("b")
    columns = ("subject", "fact_id", "key", "value", "position", "said", "valid_from", "denied", "weight")
    fields = {name: fact.c[name] for name in columns}
    until, by = find_end(fact, begun)
    again, again_gone = (find_next_statement(fact, identity, name) for name in ("unit_id", "gone"))
    consolidated_by = case((and_(until.is_(None), ~fact.c.gone, ~again_gone), again))
    named = (
        *fields.items(),
        ("valid_to", until),
        ("superseded_by", by),
        ("consolidated_by", consolidated_by),
    )
    follows = and_(*(begun.c[name] == fact.c[name] for name in identity), begun.c.stretch == fact.c.stretch + 1)
    return select(
        fact.c.host_id,
        fact.c.bank_id,
        fact.c.unit_id,
        func.jsonb_build_object(*chain.from_iterable(named)).label("row_json"),
    ).join_from(fact, begun, follows, isouter=True)


_FACTS = Expected(
    ("host_id", "bank_id", "unit_id"),
    live="""
        select f.host_id, f.bank_id, f.unit_id,
               jsonb_build_object('subject', f.subject, 'fact_id', f.fact_id, 'key', f.key, 'value', f.value,
                                  'position', f.position, 'said', f.said, 'valid_from', f.valid_from,
                                  'denied', f.denied, 'weight', f.weight,
                                  'valid_to', f.valid_to,
                                  'superseded_by', f.superseded_by,
                                  'consolidated_by', f.consolidated_by) as row_json
          from afterturn.fact_t f where afterturn.in_scope(f.host_id, f.bank_id, :host, :bank)""",
    derived=_derive_facts(),
)
_VECTORS = Expected(
    ("host_id", "bank_id", "unit_id"),
    live="""
        select distinct r.host_id, r.bank_id, r.unit_id, jsonb '{}' as row_json
          from afterturn.unit_vector_t r
          left join afterturn.agent_memory_unit_t u
            on u.host_id = r.host_id and u.bank_id = r.bank_id and u.unit_id = r.unit_id
          left join afterturn.agent_memory_reflection_t f
            on f.host_id = r.host_id and f.bank_id = r.bank_id and f.reflection_id = r.unit_id
         where afterturn.in_scope(r.host_id, r.bank_id, :host, :bank) and not coalesce(u.active, f.active, false)""",
    # A reflection needs a vector only if the ledger records that it was embedded.
    derived="""
        select r.host_id, r.bank_id, r.reflection_id as unit_id, jsonb '{}' as row_json
          from afterturn.agent_memory_reflection_t r
         where afterturn.in_scope(r.host_id, r.bank_id, :host, :bank) and r.active and r.content <> '' and not exists (
               select from afterturn.unit_vector_t v
                where v.host_id = r.host_id and v.bank_id = r.bank_id and v.unit_id = r.reflection_id)
           and (select bool_and(l.status = 'done') from afterturn.ledger_t l
                 where l.host_id = r.host_id and l.bank_id = r.bank_id and l.session_id = r.reflection_id
                   and l.stage = 'embedding')
        union all
        select r.host_id, r.bank_id, r.unit_id, jsonb '{}' as row_json
          from afterturn.agent_memory_unit_t r
         where afterturn.in_scope(r.host_id, r.bank_id, :host, :bank)
           and r.active and r.turn_id is not null and not exists (
               select from afterturn.unit_vector_t v
                where v.host_id = r.host_id and v.bank_id = r.bank_id and v.unit_id = r.unit_id)
           and not exists (select from afterturn.ledger_t l
                            where l.host_id = r.host_id and l.turn_id = r.turn_id
                              and l.status not in ('done', 'skipped') and l.stage in ('embedding', 'extraction'))""",
)

#: The names under which a replay reports them. Aliases and the words of units are compared in `derived.py`.
TURNS, WORDS = "turns", "words"
EXPECTED: Mapping[str, tuple[Expected, ...]] = {
    TURNS: (_TURNS,),
    "cooccurrence": (_PAIRS,),
    "mention_counts": (_MENTIONS,),
    "languages": (_LANGUAGES,),
    WORDS: (_WORDS_OF_NOTHING, _POSTINGS),
    "term_statistics": (_TERMS, _STATISTICS),
    "names": (_NAMES,),
    "facts": (_FACTS,),
    "vectors": (_VECTORS,),
}
