"""What stands in the tables of derived state, and what their pipeline makes of the rows it has counted so far.

What it has not come to yet counts for neither side: links that are not counted, words that wait, units that were
forgotten and are still to be taken back, names that are to be looked at again, turns whose projection is not done.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from store.derived.facts import LINED_UP, STATED
from store.derived.projection import FIRST_LINKS

OF = "(cast(:host as uuid) is null or {0}.host_id = :host) and (cast(:bank as uuid) is null or {0}.bank_id = :bank)"
_SCOPES = {f"of_{alias}": OF.format(alias) for alias in "flruw"}
#: A word says what stands in a message, so it is named by its digest.
_TERM = "'host_id', host_id, 'bank_id', bank_id, 'term_sha256', encode(sha256(convert_to(term, 'UTF8')), 'hex')"


@dataclass(frozen=True, slots=True)
class Expected:
    """Rows as they stand and as they should: two queries of `key` and the row `told` as jsonb.

    `shown` says how a row is named, if not by its whole key.
    """

    key: tuple[str, ...]
    live: str
    derived: str
    shown: str | None = None

    @property
    def sides(self) -> tuple[str, str]:
        """Return both queries, for `host` and `bank`, `many` (store/derived/facts.py) and `languages`."""
        return self.live.format(**_PARTS), self.derived.format(**_PARTS)


# A body of which the log has no digest is told from none: whatever stands in its guard will do. Of the stages only that
# they are known: while the ledger has a row of the turn there, afterwards in the guard.
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
                   as told
          from afterturn.turn_t r where {of_r}""",
    derived="""
        select r.host_id, r.turn_id,
               jsonb_build_object('bank_id', r.bank_id, 'session_id', r.session_id, 'user_id', r.user_id,
                                  'digest', encode(coalesce(r.digest, t.digest), 'hex'), 'position', r.position,
                                  'accepted_at', r.accepted_at, 'ended', true) as told
          from afterturn.logged_turns(cast(:host as uuid), cast(:bank as uuid)) r
          left join afterturn.turn_t t on t.host_id = r.host_id and t.turn_id = r.turn_id""",
)
_PAIRS = Expected(
    ("host_id", "bank_id", "entity_id_1", "entity_id_2"),
    live="""
        select r.host_id, r.bank_id, r.entity_id_1, r.entity_id_2,
               jsonb_build_object('cooccur_count', r.cooccur_count, 'last_cooccurred', r.last_cooccurred) as told
          from afterturn.agent_memory_entity_cooccur_t r where {of_r}""",
    derived=f"""
        with links as materialized ({FIRST_LINKS.format(which="{of_l} and l.counted")})
        select l.host_id, l.bank_id, l.entity_id as entity_id_1, b.entity_id as entity_id_2,
               jsonb_build_object('cooccur_count', count(*), 'last_cooccurred', max(u.event_date)) as told
          from links l
          join links b on b.host_id = l.host_id and b.bank_id = l.bank_id and b.unit_id = l.unit_id
          join afterturn.agent_memory_unit_t u
            on u.host_id = l.host_id and u.bank_id = l.bank_id and u.unit_id = l.unit_id
         where l.entity_id < b.entity_id group by 1, 2, 3, 4""",  # noqa: S608 - constants
)
_MENTIONS = Expected(
    ("host_id", "bank_id", "entity_id"),
    live="""
        select r.host_id, r.bank_id, r.entity_id, jsonb_build_object('mention_count', r.mention_count) as told
          from afterturn.agent_memory_entity_t r where {of_r}""",
    derived="""
        select r.host_id, r.bank_id, r.entity_id, jsonb_build_object('mention_count', coalesce(c.mentions, 0)) as told
          from afterturn.agent_memory_entity_t r
          left join (select l.host_id, l.bank_id, l.entity_id, sum(l.mentions) as mentions
                       from afterturn.agent_memory_unit_entity_t l where {of_l} and l.counted group by 1, 2, 3) c
            on c.host_id = r.host_id and c.bank_id = r.bank_id and c.entity_id = r.entity_id
         where {of_r}""",
)
_NAMES = Expected(
    ("host_id", "bank_id", "entity_id", "name", "kind"),
    live="""
        select r.host_id, r.bank_id, r.entity_id, r.name, r.kind, jsonb_build_object('mentions', r.mentions) as told
          from afterturn.entity_name_t r where {of_r} and r.mentions <> 0""",
    derived="""
        select l.host_id, l.bank_id, l.entity_id, coalesce(l.name, '') as name, coalesce(l.kind, '') as kind,
               jsonb_build_object('mentions', sum(l.mentions)) as told
          from afterturn.agent_memory_unit_entity_t l where {of_l} and l.counted
         group by 1, 2, 3, 4, 5 having sum(l.mentions) <> 0""",
    shown="'host_id', host_id, 'bank_id', bank_id, 'entity_id', entity_id",
)
# The usual language has a row only while words still follow a change to it.
_LANGUAGES = Expected(
    ("host_id", "bank_id"),
    live="""
        select r.host_id, r.bank_id, jsonb_build_object('language', r.language) as told
          from afterturn.bank_language_t r where {of_r} and r.language = any(cast(:languages as text[]))""",
    derived="""
        select r.host_id, r.bank_id, jsonb_build_object('language', r.disposition->>'language') as told
          from afterturn.agent_memory_bank_t r
         where {of_r} and r.active and r.disposition->>'language' = any(cast(:languages as text[]))""",
)
# Words of what does not live belong to nothing; those of what lives are compared in `words.py`.
_WORDS_OF_NOTHING = Expected(
    ("host_id", "bank_id", "unit_id"),
    live="""
        select r.host_id, r.bank_id, r.unit_id, jsonb '{{}}' as told
          from afterturn.unit_word_t r
          left join afterturn.agent_memory_unit_t u
            on u.host_id = r.host_id and u.bank_id = r.bank_id and u.unit_id = r.unit_id
         where {of_r} and u.active is not true""",
    derived="""
        select r.host_id, r.bank_id, r.unit_id, jsonb '{{}}' as told
          from afterturn.unit_word_t r where false and {of_r}""",
)
_POSTINGS = Expected(
    ("host_id", "bank_id", "term", "unit_id"),
    live="""
        select r.host_id, r.bank_id, r.term, r.unit_id,
               jsonb_build_object('session_id', r.session_id, 'seq', r.seq, 'tf', r.tf, 'length', r.length) as told
          from afterturn.posting_t r where {of_r}""",
    derived="""
        select w.host_id, w.bank_id, t.term, w.unit_id,
               jsonb_build_object('session_id', w.session_id, 'seq', w.seq, 'tf', cast(t.tf as int),
                                  'length', w.length) as told
          from afterturn.unit_word_t w, jsonb_each_text(w.terms) t(term, tf) where {of_w} and w.posted""",
    shown=f"{_TERM}, 'unit_id', unit_id",
)
# What was forgotten is counted until the projection stage takes it back.
_TERMS = Expected(
    ("host_id", "bank_id", "term"),
    live="""
        select r.host_id, r.bank_id, r.term, jsonb_build_object('df', r.df) as told
          from afterturn.term_t r where {of_r}""",
    derived="""
        select c.host_id, c.bank_id, c.term, jsonb_build_object('df', count(*)) as told
          from (select w.host_id, w.bank_id, t.term from afterturn.unit_word_t w, jsonb_object_keys(w.terms) t(term)
                 where {of_w} and w.posted
                union all
                select r.host_id, r.bank_id, t.term from afterturn.forgotten_unit_t r, unnest(r.terms) t(term)
                 where {of_r}) c
         group by 1, 2, 3""",
    shown=_TERM,
)
_STATISTICS = Expected(
    ("host_id", "bank_id"),
    live="""
        select r.host_id, r.bank_id, jsonb_build_object('units', r.units, 'tokens', r.tokens) as told
          from afterturn.bank_statistics_t r where {of_r} and (r.units, r.tokens) <> (0, 0)""",
    derived="""
        select c.host_id, c.bank_id, jsonb_build_object('units', sum(c.units), 'tokens', sum(c.tokens)) as told
          from (select w.host_id, w.bank_id, 1 as units, w.length as tokens
                  from afterturn.unit_word_t w where {of_w} and w.posted
                union all
                select r.host_id, r.bank_id, r.units, r.tokens from afterturn.forgotten_unit_t r where {of_r}) c
         group by 1, 2 having (sum(c.units), sum(c.tokens)) <> (0, 0)""",
)
# Who stated a fact in a turn that is still to be projected may stand there already, and need not; what was forgotten
# stands there until it is taken out, and has its place in the line so long.
_FACTS_STATED = """(
        select s.* from ({stated}) s
          join afterturn.agent_memory_unit_t u
            on u.host_id = s.host_id and u.bank_id = s.bank_id and u.unit_id = s.unit_id
          left join afterturn.fact_t t on t.host_id = s.host_id and t.bank_id = s.bank_id and t.unit_id = s.unit_id
         where (t.unit_id is not null
                or exists (select from afterturn.turn_t g where g.host_id = u.host_id and g.turn_id = u.turn_id)
                and not exists (select from afterturn.ledger_t l
                                 where l.host_id = u.host_id and l.turn_id = u.turn_id and l.stage = 'projection'
                                   and l.status <> 'done'))
           and not exists (select from afterturn.forgotten_unit_t n
                            where n.host_id = s.host_id and n.bank_id = s.bank_id and n.unit_id = s.unit_id)
        union all
        select r.host_id, r.bank_id, r.unit_id, r.subject, r.fact_id, r.key, r.value, r.position, r.valid_from, r.said
          from afterturn.fact_t r
         where {of_r} and exists (
               select from afterturn.forgotten_unit_t n
                where n.host_id = r.host_id and n.bank_id = r.bank_id and n.unit_id = r.unit_id)) f"""
_FACTS = Expected(
    ("host_id", "bank_id", "unit_id"),
    live="""
        select f.host_id, f.bank_id, f.unit_id,
               jsonb_build_object('subject', f.subject, 'fact_id', f.fact_id, 'key', f.key, 'value', f.value,
                                  'position', f.position, 'said', f.said, 'valid_from', f.valid_from,
                                  'valid_to', f.valid_to,
                                  'superseded_by', f.superseded_by) as told
          from afterturn.fact_t f where {of_f}""",
    derived="""
        with {lined_up}
        select f.host_id, f.bank_id, f.unit_id,
               jsonb_build_object('subject', f.subject, 'fact_id', f.fact_id, 'key', f.key, 'value', f.value,
                                  'position', f.position, 'said', f.said, 'valid_from', f.valid_from,
                                  'valid_to', b.valid_from,
                                  'superseded_by', b.unit_id) as told
          from lined f
          left join begun b
            on b.host_id = f.host_id and b.bank_id = f.bank_id and b.fact_id = f.fact_id and b.subject = f.subject
           and b.key = f.key and b.stretch = f.stretch + 1""",
)
_VECTORS = Expected(
    ("host_id", "bank_id", "unit_id"),
    live="""
        select distinct r.host_id, r.bank_id, r.unit_id, jsonb '{{}}' as told
          from afterturn.unit_vector_t r
          left join afterturn.agent_memory_unit_t u
            on u.host_id = r.host_id and u.bank_id = r.bank_id and u.unit_id = r.unit_id
          left join afterturn.agent_memory_reflection_t f
            on f.host_id = r.host_id and f.bank_id = r.bank_id and f.reflection_id = r.unit_id
         where {of_r} and not coalesce(u.active, f.active, false)""",
    # Of a reflection it is asked only where the ledger says that it was embedded.
    derived="""
        select r.host_id, r.bank_id, r.reflection_id as unit_id, jsonb '{{}}' as told
          from afterturn.agent_memory_reflection_t r
         where {of_r} and r.active and r.content <> '' and not exists (
               select from afterturn.unit_vector_t v
                where v.host_id = r.host_id and v.bank_id = r.bank_id and v.unit_id = r.reflection_id)
           and (select bool_and(l.status = 'done') from afterturn.ledger_t l
                 where l.host_id = r.host_id and l.bank_id = r.bank_id and l.session_id = r.reflection_id
                   and l.stage = 'embedding')
        union all
        select r.host_id, r.bank_id, r.unit_id, jsonb '{{}}' as told
          from afterturn.agent_memory_unit_t r
         where {of_r} and r.active and r.turn_id is not null and not exists (
               select from afterturn.unit_vector_t v
                where v.host_id = r.host_id and v.bank_id = r.bank_id and v.unit_id = r.unit_id)
           and not exists (select from afterturn.ledger_t l
                            where l.host_id = r.host_id and l.turn_id = r.turn_id
                              and l.status not in ('done', 'skipped') and l.stage in ('embedding', 'extraction'))""",
)

#: The names under which a replay reports them. What entities are called as a whole is asked in `aliases.py`, and what
#: words a unit has in `words.py`.
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

_PARTS = _SCOPES | {
    "lined_up": LINED_UP.format(
        identity="f.host_id, f.bank_id, f.fact_id, f.subject, f.key",
        facts=_FACTS_STATED.format(**_SCOPES, stated=STATED.format(scope=_SCOPES["of_u"])),
    )
}
