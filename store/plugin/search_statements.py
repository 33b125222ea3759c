"""The statements of the plugin's searches: filters, listing, callers' vectors, words, nearness, and the order of both.

Each has the tenant, the namespaces and the filters as parameters; what only differs in a part is put together from
constants. Plans matter: an index is matched by the very words of its predicate (tests/store/plugin/test_indexes.py).
"""

from functools import lru_cache
from uuid import UUID

from sqlalchemy import TextClause, text

from store.plugin.memories import COLUMNS, IS_MEMORY, KINDS
from store.plugin.namespaces import LIVING
from store.recall.waiting import PACKED_ALONE, WAITING

# What a search looks at ---------------------------------------------------------------------------------------------

_CHUNK = "v.host_id = :host and v.generation = :generation and v.chunk = 0"
_OF_BANK = "u.host_id = :host and u.bank_id = any(cast(:banks as uuid[])) and u.seq is not null"
_MEMORY = IS_MEMORY.format(unit="u")
_ID = "cast(u.metadata->'plugin'->>'id' as uuid)"
_PINNED = "coalesce(cast(u.metadata->'plugin'->>'pin' as boolean), false)"
_FROM_UNITS = f"from afterturn.agent_memory_unit_t u where {_OF_BANK} and {_MEMORY}"


# Listing -------------------------------------------------------------------------------------------------------------

# A page is read from each namespace by two indexes, `unit_pinned_by_plugin` and `unit_listed_by_plugin`, each from
# behind the last memory of the page before. Of its time, those before it are passed over.
_LISTED = f"""
    select u.* from afterturn.agent_memory_unit_t u
     where u.host_id = :host and u.bank_id = b.bank_id and u.seq is not null and {_MEMORY} and {{part}}
       and (cast(:letter as text) is null or position(lower(:letter) in lower(u.content)) > 0)
       and u.mentioned_at <= {{at}} and (u.mentioned_at, {_ID}) < ({{at}}, {{id}})
     order by u.mentioned_at desc, {_ID} desc limit :limit"""  # noqa: S608 - put together from constants
_LISTED_PINNED = _LISTED.format(
    part="u.metadata->'plugin'->>'pin' = 'true' and coalesce(cast(:pinned as boolean), true)",
    at="coalesce(cast(:at as timestamptz), 'infinity')",
    id="coalesce(cast(:id as uuid), 'ffffffff-ffff-ffff-ffff-ffffffffffff')",
)
_LISTED_PLAIN = _LISTED.format(
    part="u.metadata->'plugin'->>'pin' is distinct from 'true'",
    at="case when cast(:pinned as boolean) then 'infinity' else coalesce(cast(:at as timestamptz), 'infinity') end",
    id="""case when coalesce(cast(:pinned as boolean), true)
                 then cast('ffffffff-ffff-ffff-ffff-ffffffffffff' as uuid) else cast(:id as uuid) end""",
)
LIST = text(f"""
    select {COLUMNS}
      from unnest(cast(:banks as uuid[])) b(bank_id)
     cross join lateral (({_LISTED_PINNED}) union all ({_LISTED_PLAIN})) u
     order by pinned desc, u.mentioned_at desc, {_ID} desc limit :limit""")  # noqa: S608 - put together from constants

# The arm of callers' vectors ----------------------------------------------------------------------------------------

# A vector is read while its memory names it: another was written for another version of that.
_OF_CALLER = f"""
      from {{vectors}} v
      join afterturn.agent_memory_unit_t u
        on u.host_id = v.host_id and u.bank_id = v.bank_id and u.session_id = v.session_id
     where {_OF_BANK} and {_MEMORY} and u.metadata->'plugin'->>'vector' = v.digest"""
_SCORED = (
    f"select {COLUMNS}, 1 - (v.embedding operator(public.<=>) cast(cast(:numbers as real[]) as public.vector)) as score"
)
_OF_DIMENSION = "v.host_id = :host and v.bank_id = any(cast(:banks as uuid[])) and v.dimension = :dimension"
_BEST_FIRST = f"order by {_PINNED} and :pins_first desc, score desc, u.mentioned_at desc, {_ID} desc limit :limit"
NEAREST = text(f"{_SCORED} {_OF_CALLER.format(vectors='afterturn.plugin_vector_t')} and {_OF_DIMENSION} {_BEST_FIRST}")
PINNED = text(
    f"{_SCORED} {_OF_CALLER.format(vectors='afterturn.plugin_vector_t')} and {_OF_DIMENSION} "
    f"and u.metadata->'plugin'->>'pin' = 'true' {_BEST_FIRST}"
)
# The order that an index of one namespace and one dimension serves: both stand in its statement, as in its index.
_IN_LISTS = f"""
    with near as materialized (
        select v.host_id, v.bank_id, v.session_id, v.digest, v.embedding from afterturn.plugin_vector_t v
         where v.host_id = :host and v.bank_id = '{{bank}}' and v.dimension = {{dimension}}
         order by cast(v.embedding as public.halfvec({{dimension}}))
                  operator(public.<#>) cast(cast(:numbers as real[]) as public.halfvec({{dimension}}))
         limit :looked_at)
    {_SCORED} {_OF_CALLER.format(vectors="near")} order by score desc, u.mentioned_at desc, {_ID} desc limit :limit"""  # noqa: S608
VECTORS = text(f"""
    select u.unit_id, v.norm, cast(v.embedding as real[]) as numbers
           {_OF_CALLER.format(vectors="afterturn.plugin_vector_t")}
       and v.host_id = :host and u.unit_id = any(cast(:units as uuid[]))""")

# The arm of words, with what has no vector yet -----------------------------------------------------------------------

# Which of the named namespaces live.
_LIVING = f"select n.bank_id from ({LIVING}) n where coalesce(n.expires_at > :now, true)"  # noqa: S608 - constants
# In how many units of each namespace the asked words stand. The rarest is read, and of the others those that leave the
# postings of all together within the budget, as a recall does (`store.recall.lexical.readable_terms`).
_ASKED = """, asked as materialized (
        select b.bank_id, q.term, coalesce(t.df, 0) as df, row_number() over rarest as nth,
               sum(coalesce(t.df, 0)) over rarest as spent
          from living b cross join unnest(cast(:terms as text[])) q(term)
          left join lateral (select t.df from afterturn.term_t t
                              where t.host_id = :host and t.bank_id = b.bank_id and t.term = q.term limit 1) t on true
        window rarest as (partition by b.bank_id order by coalesce(t.df, 0), q.term))"""
_AFFORDABLE = "(q.nth = 1 or q.spent <= :postings)"
# Words that stand in the index, and those that wait to be carried there; a memory stands alone. What is drawn from
# memories has no number in its session. One probe of an index a word: joined at large, all memories of the banks would
# be read for each.
_POSTED = f"""
    select p.term, {PACKED_ALONE} as packed
      from asked q
     cross join lateral (select p.bank_id, p.unit_id, p.term, p.tf, p.length from afterturn.posting_t p
                          where p.host_id = :host and p.bank_id = q.bank_id and p.term = q.term
                            and p.seq is not null limit :postings) p {{of_memories}}
     where {{read}}
     group by p.term"""  # noqa: S608 - put together from constants
_WAITING_IN = WAITING.format(unit="").replace("w.bank_id = :bank", "w.bank_id = any(array(select bank_id from living))")
_WAITING_WORDS = f"""
    select p.term, {PACKED_ALONE} as packed
      from ({_WAITING_IN}) p {{of_waiting_memories}} where p.seq >= 0
     group by p.term"""  # noqa: S608 - put together from constants
_IS_OF_MEMORY = f"""
             cross join lateral (select from afterturn.agent_memory_unit_t u
                                  where u.host_id = :host and u.bank_id = {{bank}} and u.unit_id = {{unit}}
                                    and u.seq is not null and {_MEMORY} limit 1) u"""
_OF_MEMORIES = _IS_OF_MEMORY.format(bank="p.bank_id", unit="p.unit_id")
_OF_WAITING_MEMORIES = _IS_OF_MEMORY.format(bank="any(array(select bank_id from living))", unit="p.unit_id")
# What no worker has embedded yet, the newest first. Each is looked up: joined at large, all vectors of a tenant would
# be read beside a few that wait.
_FRESH = f"""
    select u.unit_id, left(u.content, :characters) as content
      from living b
     cross join lateral (select l.bank_id, l.turn_id, l.position from afterturn.ledger_t l
                          where l.host_id = :host and l.bank_id = b.bank_id and l.stage = 'embedding' and l.undone
                          order by l.position desc limit :chunks) l
     cross join lateral (select u.* from afterturn.agent_memory_unit_t u
                          where u.host_id = :host and u.bank_id = l.bank_id and u.turn_id = l.turn_id
                            and u.seq is not null and {_MEMORY} limit 1) u
     where (select true from afterturn.unit_vector_t v
             where v.host_id = :host and v.bank_id = u.bank_id and v.generation = :generation and v.unit_id = u.unit_id
             limit 1) is null
     order by u.mentioned_at desc limit :chunks"""  # noqa: S608 - put together from constants
# Memories of rare kinds, up to `too_many`. The kind is a literal, as in its index: behind row-level security a
# parameter would not match the index.
_OF_KIND = f"""
    select u.bank_id, u.unit_id
      from living b
     cross join lateral (select u.bank_id, u.unit_id from afterturn.agent_memory_unit_t u
                          where u.host_id = :host and u.bank_id = b.bank_id and u.seq is not null and {_MEMORY}
                            and u.metadata->'plugin'->>'kind' = '{{kind}}' limit :too_many) u
     where '{{kind}}' = any(cast(:kinds as text[]))"""  # noqa: S608 - put together from constants
_WORDS_OF_FEW = f"""
    select p.term, {PACKED_ALONE} as packed
      from (select m.term, w.unit_id, cast(o.terms->>m.term as int) as tf, w.length
              from few f
             cross join lateral (select w.unit_id, w.length, w.terms from afterturn.unit_word_t w
                                  where w.host_id = :host and w.bank_id = f.bank_id and w.unit_id = f.unit_id limit 1) w
             cross join lateral (select w.terms #> cast(array[] as text[]) as terms offset 0) o
             cross join lateral (select a.term from unnest(cast(:terms as text[])) a(term) where o.terms ? a.term
                                 offset 0) m) p
     group by p.term"""  # noqa: S608 - put together from constants
# One round trip: the words of the question, what has no vector, and how large each bank is, its units whose words wait
# included; of a large one, how many lists of the index by nearness are read.
_READ = f"""
    with living as materialized ({_LIVING}){{beside}}
    select w.term, w.packed, cast(null as uuid) as unit_id, null as content, cast(null as uuid) as bank_id,
           cast(null as bigint) as units, cast(null as int) as lists
      from ({{words}}) w
     union all
    select null, null, f.unit_id, f.content, null, null, null from ({_FRESH}) f
     union all
    select null, null, null, null, b.bank_id,
           coalesce(s.units, 0) + (select count(*) from afterturn.unit_word_t w
                                    where w.host_id = :host and w.bank_id = b.bank_id and not w.posted),
           case when s.units > :exact_units then afterturn.lists_to_read(b.bank_id, s.units, :read_units) end
      from living b
      left join afterturn.bank_statistics_t s on s.host_id = :host and s.bank_id = b.bank_id"""  # noqa: S608
_WORDS = f"{_POSTED} union all {_WAITING_WORDS}"
# Beside it, the common words that were not read, and in how many units they stand.
READ_WORDS = text(f"""
    {_READ.format(beside=_ASKED, words=_WORDS.format(of_memories="", of_waiting_memories="", read=_AFFORDABLE))}
     union all
    select q.term, null, null, null, null, q.df, null from asked q where not {_AFFORDABLE}""")  # noqa: S608
# Of memories alone, the same number of postings of each word are read.
_WORDS_OF_MEMORIES = _WORDS.format(of_memories=_OF_MEMORIES, of_waiting_memories=_OF_WAITING_MEMORIES, read="true")
READ_WORDS_OF_MEMORIES = text(_READ.format(beside=_ASKED, words=_WORDS_OF_MEMORIES))
# Beside it, the few memories themselves, or, of too many, their number.
_COUNTED = " union all ".join(_OF_KIND.format(kind=kind) for kind in KINDS)
_FEW = f""", counted as materialized ({_COUNTED}),
    few as materialized (select c.* from counted c where (select count(*) from counted) < :too_many)"""  # noqa: S608
READ_FEW = text(f"""
    {_READ.format(beside=_FEW, words=_WORDS_OF_FEW)}
     union all
    select null, null, f.unit_id, null, null, null, null from few f
     union all
    select null, null, null, null, null, count(*), null from counted""")  # noqa: S608 - put together from constants
_CONTAINING = f"""
    select u.unit_id {_FROM_UNITS} {{among}}
       and (position(lower(:query) in lower(u.content)) > 0
            or (cardinality(cast(:words as text[])) > 0 and not exists (
                select from unnest(cast(:words as text[])) q(word)
                 where position(q.word in afterturn.folded(u.content)) = 0)))
     order by u.mentioned_at desc, u.unit_id limit :most"""  # noqa: S608 - put together from constants
CONTAINING = text(_CONTAINING.format(among=""))
CONTAINING_AMONG_FEW = text(_CONTAINING.format(among="and u.unit_id = any(cast(:few as uuid[]))"))

# The arm of nearness, and the order of both --------------------------------------------------------------------------

# How near the nearest of each bank are, those that share words, and pinned ones; of all of them the best, by words and
# nearness together, of which alone the memories are opened. Pinned ones are opened as well: they stand first. `cut`:
# more are near than were looked at. An order that no index can serve is exact.
_BEST = f"""
    with near as materialized (
        select n.bank_id, n.unit_id, -n.distance as cosine
          from unnest(cast(:whole as uuid[])) b(bank_id), lateral ({{nearest}}) n
    ), pinned as materialized (
        select p.bank_id, p.unit_id
          from unnest(cast(:banks as uuid[])) b(bank_id)
         cross join lateral (select u.bank_id, u.unit_id from afterturn.agent_memory_unit_t u
                              where u.host_id = :host and u.bank_id = b.bank_id and u.seq is not null and {_MEMORY}
                                and u.metadata->'plugin'->>'pin' = 'true'
                              order by u.mentioned_at desc limit :pins) p
    ), cosines as (
        select c.unit_id, max(c.cosine) as cosine
          from (select n.unit_id, n.cosine from near n
                 union all
                select k.unit_id, k.cosine
                  from unnest(cast(:known as uuid[]), cast(:cosines as float8[])) k(unit_id, cosine)
                 union all
                select v.unit_id, v.cosine
                  from unnest(cast(:banks as uuid[])) b(bank_id)
                 cross join lateral (
                    select v.unit_id, -(v.embedding <#> cast(:vector as halfvec)) as cosine
                      from afterturn.unit_vector_t v
                     where {_CHUNK} and v.bank_id = b.bank_id
                       and v.unit_id = any(cast(:units as uuid[]) || array(select p.unit_id from pinned p))
                     offset 0) v) c
         group by c.unit_id
    ), fused as materialized (
        select unit_id, (coalesce(w.score, 0) + cast(:weight as float8) * greatest(0, coalesce(c.cosine, 0)))
                        / (1 + cast(:weight as float8)) as score
          from unnest(cast(:units as uuid[]), cast(:scores as float8[])) w(unit_id, score)
          full join cosines c using (unit_id)
         where w.score > 0 or c.cosine >= :near
    ), best as (
        (select f.unit_id, f.score from fused f order by f.score desc fetch first (:opened) rows with ties)
         union
        select f.unit_id, f.score from fused f join pinned p using (unit_id)
    ), found as (
        select {COLUMNS}, q.score
          from best q
         cross join lateral (select u.* from afterturn.agent_memory_unit_t u
                              where {_OF_BANK} and u.unit_id = q.unit_id and {_MEMORY} limit 1) u
         order by {_PINNED} and :pins_first desc, q.score desc, u.mentioned_at desc, {_ID} desc limit :limit
    )
    select t.cut, f.*
      from (select (select count(*) from fused) > :opened
                   or exists (select from near n group by n.bank_id having count(*) >= :looked_at) as cut) t
      left join found f on true"""  # noqa: S608 - put together from constants
# What is not near is left out before it is put in order: most is.
_DISTANCE = """
    select v.bank_id, v.unit_id, (v.embedding <#> cast(:vector as halfvec)) + 0 as distance
      from afterturn.unit_vector_t v {of_memories}
     where {chunk} and v.bank_id = b.bank_id and -(v.embedding <#> cast(:vector as halfvec)) >= :near
     order by distance limit :looked_at"""
_OF_FIRST = _DISTANCE.format(chunk=_CHUNK, of_memories="")
_OF_ALL = _DISTANCE.format(
    chunk=_CHUNK,
    of_memories=f"""
      join afterturn.agent_memory_unit_t u
        on u.host_id = :host and u.bank_id = b.bank_id and u.unit_id = v.unit_id and u.seq is not null and {_MEMORY}""",
)
BEST, BEST_OF_ALL = (text(_BEST.format(nearest=nearest)) for nearest in (_OF_FIRST, _OF_ALL))
# The order that an index of lists serves.
_NEAR_IN_LISTS = """
    select v.unit_id, v.chunk, -(v.embedding <#> cast(:vector as halfvec)) as cosine
      from afterturn.unit_vector_t v
     where v.host_id = :host and v.bank_id = :bank and v.generation = :generation
     order by v.embedding <#> cast(:vector as halfvec) limit :looked_at"""
NEAR_IN_LISTS = text(_NEAR_IN_LISTS)
# What is no memory, and other kinds, are left out of the nearest.
MEMORIES_IN_LISTS = text(f"""
    with near as materialized ({_NEAR_IN_LISTS})
    select u.unit_id, n.chunk, n.cosine
      from near n
      join afterturn.agent_memory_unit_t u on u.host_id = :host and u.bank_id = :bank and u.unit_id = n.unit_id
     where n.chunk = 0 and u.seq is not null and {_MEMORY}
     order by n.cosine desc limit :most""")  # noqa: S608 - put together from constants


@lru_cache(maxsize=1000)
def nearest_in_lists(bank: UUID, dimension: int) -> TextClause:
    """Return the statement that reads the nearest of a namespace by the index of its vectors of a dimension."""
    return text(_IN_LISTS.format(bank=bank, dimension=dimension))
