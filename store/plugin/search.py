"""Searches of the memory plugin: one over all named namespaces, for memories of the plugin alone.

By text it is a hybrid of words and meaning with a floor: what shares no word with the query, and is not near it, is not
returned. By a caller's vector it is exact up to the size where maintenance makes an index (`recall.exact_units`), and a
listing always is. What an index leaves too few of, behind a filter, is searched in full.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto
from functools import lru_cache
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Row, TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from embeddings.errors import EmbeddingError
from embeddings.protocol import Embedder
from store import identity
from store.database import ONE_PLAN, Database
from store.off_loop import off_loop
from store.plugin.memories import COLUMNS, IS_MEMORY, KINDS, StoredMemory, build_memory
from store.plugin.namespaces import LIVING, read_namespaces
from store.plugin.vectors import CallersVector, read_dimensions, read_lists, reading_lists
from store.recall.lexical import ALONE, RankedUnits, rank_units
from store.recall.question import EFFORT, Question, parse_question
from store.recall.recaller import MAX_CHARACTERS
from store.recall.settings import RecallSettings
from store.recall.tail import CHARACTERS, Fresh, select_affordable
from store.recall.waiting import PACKED_ALONE, WAITING
from store.tenancy.languages import Languages, rules_of_bank
from store.text.terms import words_of
from store.text.word_rules import WordRules

_CHUNK = "v.host_id = :host and v.generation = :generation and v.chunk = 0"
_OF_BANK = "u.host_id = :host and u.bank_id = any(cast(:banks as uuid[])) and u.seq is not null"
_MEMORY = IS_MEMORY.format(unit="u")
_ID = "cast(u.metadata->'plugin'->>'id' as uuid)"
_PINNED = "coalesce(cast(u.metadata->'plugin'->>'pin' as boolean), false)"
_FROM_UNITS = f"from afterturn.agent_memory_unit_t u where {_OF_BANK} and {_MEMORY}"

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

#: Candidates compared: of the best by words, and of the pinned in each namespace.
COMPARED = 400
#: The nearest memories compared in each namespace, or the limit of the search if that is higher; the cosines of those
#: that share words, and of pinned ones, are read in addition.
NEAREST_COMPARED = 100
#: Units read from an index for each memory that is wanted. If fewer than one in ten is one, the index is left and all
#: of the namespace is read.
LOOKED_AT = 10
#: Units of any kind looked at first for each memory that is compared.
FIRST_LOOKED_AT = 2
#: Units opened first for each memory that is wanted, the best of those that are compared. Where too few of them are
#: memories, all of the namespace's are read.
OPENED = 5
#: Up to this many memories of the kinds asked for, each is compared; of more, only the best units of any kind.
FEW = 5_000
MOST = 2**31 - 1


class _Reach(Enum):
    """What a search looks at: each of few memories, the best units of any kind, or all memories."""

    FEW = auto()
    BEST = auto()
    ALL = auto()


_STATEMENTS = {_Reach.FEW: READ_FEW, _Reach.BEST: READ_WORDS, _Reach.ALL: READ_WORDS_OF_MEMORIES}


@dataclass(frozen=True, slots=True)
class ListingCursor:
    """The last memory of a page of a listing: the next page begins behind it."""

    pinned: bool
    created_at: datetime
    memory_id: UUID


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """Where a search looks: the names of namespaces, the kinds of memories (none: all), and how many it returns."""

    names: Sequence[str]
    kinds: Sequence[str]
    limit: int


@dataclass(frozen=True, slots=True)
class _Scope:
    """A search within its transaction: the banks that are left of the names, and what every statement takes."""

    connection: AsyncConnection
    arguments: Mapping[str, Any] = field(repr=False)

    @property
    def banks(self) -> Sequence[UUID]:
        banks: Sequence[UUID] = self.arguments["banks"]
        return banks


@dataclass(frozen=True, slots=True)
class _Size:
    """How many units a bank has, and how many lists of the index by nearness are read there; None: all vectors are."""

    units: int
    lists: int | None


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A search by text: the question, its vector where it has one, and whether pinned memories stand first."""

    host: UUID
    asked: SearchQuery
    question: Question
    vector: NDArray[np.float32] | None
    pins_first: bool


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read for a search: units that share words with it, by how much; what has no vector yet.

    `few`: the memories of rare kinds.
    """

    banks: Mapping[UUID, _Size]
    words: RankedUnits
    tail: Sequence[Fresh] = ()
    few: Sequence[UUID] = ()


@dataclass(frozen=True, slots=True)
class _InLists:
    """How near the nearest of large banks are; `whole`: banks to be read whole; `is_cut`: more than these are near."""

    cosines: Mapping[UUID, float]
    whole: Sequence[UUID]
    is_cut: bool


class PluginSearch:
    """Lists and finds memories of a tenant's namespaces; one that is not there, or has expired, has none.

    `near`: the least cosine of what shares no word with a query. `few`: up to how many memories of the kinds that are
    asked for each is compared.
    """

    def __init__(
        self,
        database: Database,
        embedder: Embedder,
        settings: RecallSettings,
        clock: Callable[[], datetime],
        near: float,
        *,
        few: int = FEW,
    ) -> None:
        self._database, self._embedder, self._settings = database, embedder, settings
        self._clock, self._near, self._few = clock, near, few
        self._languages = Languages(database)

    async def page(
        self, host: UUID, asked: SearchQuery, after: ListingCursor | None = None, letter: str | None = None
    ) -> list[StoredMemory]:
        """List memories: pinned ones, the newest, then by id; `letter`: those that hold it, in either case."""
        begin = {"pinned": after and after.pinned, "at": after and after.created_at, "id": after and after.memory_id}
        async with self._database.tenant(host) as connection:
            scope = await self._scope(connection, host, asked)
            rows = await connection.execute(LIST, {**scope.arguments, **begin, "letter": letter, "limit": asked.limit})
            return [build_memory(row) for row in rows]

    async def vectors(
        self, host: UUID, asked: SearchQuery, memories: Sequence[StoredMemory]
    ) -> dict[UUID, Sequence[float]]:
        """Return the callers' vectors of listed memories by unit, of the length that they were sent with."""
        async with self._database.tenant(host) as connection:
            scope = await self._scope(connection, host, asked)
            about = {**scope.arguments, "units": [one.unit for one in memories]}
            rows = await connection.execute(VECTORS, about)
            return {row.unit_id: [float(number) * row.norm for number in row.numbers] for row in rows}

    async def dimensions(self, host: UUID, asked: SearchQuery) -> list[int]:
        """Return the dimensions of the callers' vectors that the namespaces hold."""
        async with self._database.tenant(host) as connection:
            return await read_dimensions(connection, host, (await self._scope(connection, host, asked)).banks)

    async def nearest(
        self, host: UUID, asked: SearchQuery, vector: CallersVector, *, pins_first: bool = True
    ) -> list[StoredMemory]:
        """Return the memories whose callers' vectors of its dimension are nearest; the score is 1 - distance."""
        about = {"numbers": list(vector.numbers), "dimension": vector.dimension, "pins_first": pins_first}
        async with self._database.tenant(host) as connection:
            scope = await self._scope(connection, host, asked)
            whole, found = set(scope.banks), list[Row[Any]]()
            for bank, lists in await read_lists(connection, scope.banks, vector.dimension, self._settings.read_units):
                near = await _nearest_in_lists(scope, bank, lists, {**about, "limit": asked.limit})
                if near is not None:
                    whole.remove(bank)
                    found += near
            if whole:
                one_by_one = {**scope.arguments, **about, "banks": list(whole), "limit": asked.limit}
                found += (await connection.execute(NEAREST, one_by_one)).all()
            memories = {row.unit_id: build_memory(row, max(-1.0, min(1.0, row.score))) for row in found}
            return sorted(memories.values(), key=lambda one: _rank(one, pins_first))[: asked.limit]

    async def find(
        self, host: UUID, asked: SearchQuery, query: str, *, by_words: bool = False, pins_first: bool = True
    ) -> list[StoredMemory]:
        """Return the memories that share a word with a query or are near it, the best first; `by_words`: those alone.

        An embedder that is late or fails leaves the words.
        """
        cut = query.strip()[:MAX_CHARACTERS]
        rules = await self._rules(host, asked.names)
        question = await off_loop(EFFORT * len(cut), lambda: parse_question(cut, rules=rules))
        vector = None if by_words else await self._embed_query(cut)
        wanted = _Wanted(host, asked, question, vector, pins_first)
        for reach in _Reach:
            if reach is _Reach.FEW and not (asked.kinds and self._few):
                continue
            if (found := await self._find(wanted, reach)) is not None:
                return found
        return []

    async def _scope(self, connection: AsyncConnection, host: UUID, asked: SearchQuery) -> _Scope:
        rows = await read_namespaces(connection, host, asked.names)
        arguments = self._arguments(host, [], asked)
        living = [one.bank for one in rows if not one.has_ended(arguments["now"])]
        return _Scope(connection, {**arguments, "banks": living})

    def _arguments(self, host: UUID, banks: Sequence[UUID], asked: SearchQuery) -> dict[str, Any]:
        return {"host": host, "banks": banks, "kinds": list(asked.kinds) or None, "now": self._clock()}

    async def _rules(self, host: UUID, names: Sequence[str]) -> Sequence[WordRules]:
        """Return the rules by which words of any of these namespaces are cut."""
        known = await self._languages.of(host)
        rules = [rule for name in names for rule in rules_of_bank(known, identity.bank_id(host, name)).asking]
        return list({rule.name: rule for rule in rules}.values())

    async def _find(self, wanted: _Wanted, reach: _Reach) -> list[StoredMemory] | None:
        """Search once; None where too few units were looked at, which is never so of all memories."""
        async with self._database.tenant(wanted.host, ONE_PLAN) as connection:
            read = await self._read(connection, wanted, reach)
            if read is None or wanted.vector is None or not read.tail:
                return None if read is None else await self._best(connection, wanted, read, {}, reach)
        fresh = await self._embed_tail(wanted.vector, wanted.question.text, read.tail)
        async with self._database.tenant(wanted.host, ONE_PLAN) as connection:
            return await self._best(connection, wanted, read, fresh, reach)

    async def _read(self, connection: AsyncConnection, wanted: _Wanted, reach: _Reach) -> _Read | None:
        """Read what the words of a question find, what has no vector yet, and how large each bank is.

        None where memories of rare kinds were asked for and are not few.
        """
        settings, question = self._settings, wanted.question
        named = [identity.bank_id(wanted.host, name) for name in dict.fromkeys(wanted.asked.names)]
        about = {
            **self._arguments(wanted.host, named, wanted.asked),
            "terms": list(question.words),
            "postings": settings.postings,
            "too_many": self._few + 1,
            "exact_units": settings.exact_units,
            "read_units": settings.read_units,
            "chunks": 0 if wanted.vector is None else settings.fresh_tail_chunks,
            "characters": CHARACTERS,
            "generation": self._embedder.generation,
        }
        packed, banks, tail, few = defaultdict[str, bytes](bytes), dict[UUID, _Size](), list[Fresh](), list[UUID]()
        unread = Counter[str]()
        for row in await connection.execute(_STATEMENTS[reach], about):
            if row.packed is not None:
                packed[row.term] += row.packed
            elif row.term is not None:
                unread[row.term] += row.units
            elif row.content is not None:
                tail.append(Fresh(row.unit_id, row.content))
            elif row.unit_id is not None:
                few.append(row.unit_id)
            elif row.bank_id is not None:
                banks[row.bank_id] = _Size(row.units, row.lists)
            elif row.units > self._few:
                return None
        units, most = sum(one.units for one in banks.values()), len(few) or COMPARED
        words = await self._rank(packed, unread, question, units, most)
        if banks and not words.units:
            scope = _Scope(connection, self._arguments(wanted.host, list(banks), wanted.asked))
            words = await _containing(scope, question.text, few if reach is _Reach.FEW else None)
        return _Read(banks, words, tail, few)

    async def _rank(
        self, packed: Mapping[str, bytes], unread: Mapping[str, int], question: Question, units: int, most: int
    ) -> RankedUnits:
        """Rank what shares words with a question, in banks of so many units; return the best."""
        postings = {term: np.frombuffer(some, dtype=ALONE) for term, some in packed.items()}
        ranking = self._settings.ranking
        effort = sum(map(len, postings.values()))
        return await off_loop(effort, lambda: rank_units(postings, question, units, ranking, most, unread=unread))

    async def _best(
        self,
        connection: AsyncConnection,
        wanted: _Wanted,
        read: _Read,
        fresh: Mapping[UUID, float],
        reach: _Reach,
    ) -> list[StoredMemory] | None:
        """Return the best of what shares words and what is near; `fresh`: how near units without a vector are."""
        if not read.banks:
            return []
        limit = wanted.asked.limit
        about = {
            **self._arguments(wanted.host, list(read.banks), wanted.asked),
            "vector": wanted.vector,
            "generation": self._embedder.generation,
            "near": self._near,
            "weight": self._settings.ranking.dense_weight,
        }
        about["most"] = max(NEAREST_COMPARED, limit)
        in_lists, everything = _InLists({}, [], is_cut=False), reach is _Reach.ALL
        if wanted.vector is not None and reach is not _Reach.FEW:
            in_lists = await _near_in_lists(_Scope(connection, about), read.banks, everything=everything)
        known = {**in_lists.cosines, **fresh}
        unsaid = {one.hex for one in read.few}.difference(read.words.units)
        about |= {
            "whole": in_lists.whole,
            "known": list(known),
            "cosines": list(known.values()),
            "units": [*read.words.units, *unsaid],
            "scores": [*read.words.scores, *[0.0] * len(unsaid)],
            "pins": COMPARED if wanted.pins_first else 0,
            "pins_first": wanted.pins_first,
            "looked_at": about["most"] * (1 if everything else FIRST_LOOKED_AT),
            # Of one kind of memories, the best units may hold few.
            "opened": MOST if everything or wanted.asked.kinds else max(NEAREST_COMPARED, OPENED * limit),
            "limit": limit,
        }
        rows = (await connection.execute(BEST_OF_ALL if everything else BEST, about)).all()
        found = [build_memory(row, row.score) for row in rows if row.unit_id is not None]
        is_cut = rows[0].cut or in_lists.is_cut or read.words.are_cut
        if len(found) < limit and reach is _Reach.BEST and (is_cut or _are_others(read, found)):
            return None
        return sorted(found, key=lambda one: _rank(one, wanted.pins_first))

    async def _embed_query(self, query: str) -> NDArray[np.float32] | None:
        """Return the query's vector; never raises for what an embedder does."""
        try:
            async with asyncio.timeout(self._settings.embed_deadline_ms / 1000):
                vector: NDArray[np.float32] = (await self._embedder.embed([query]))[0]
        except (TimeoutError, EmbeddingError):
            return None
        return vector

    async def _embed_tail(self, vector: NDArray[np.float32], query: str, tail: Sequence[Fresh]) -> Mapping[UUID, float]:
        """Return how near the fresh tail is to a query; never raises for what an embedder does."""
        try:
            async with asyncio.timeout(self._settings.embed_deadline_ms / 1000):
                read = select_affordable(tail, query, self._settings.fresh_tail_ms, self._embedder.estimate_ms)
                cosines = await self._embedder.embed([fresh.content for fresh in read]) @ vector
        except (TimeoutError, EmbeddingError):
            return {}
        return {fresh.unit_id: float(one) for fresh, one in zip(read, cosines, strict=True)}


def _are_others(read: _Read, found: Sequence[StoredMemory]) -> bool:
    """Say whether words were found, and in no memory that was: they stand in what is none."""
    words = set(read.words.units)
    return bool(words) and all(one.unit.hex not in words for one in found)


async def _near_in_lists(scope: _Scope, banks: Mapping[UUID, _Size], *, everything: bool) -> _InLists:
    """Read how near the nearest of large banks are: memories, if `everything` is looked for, else units of any kind."""
    most, cosines, whole, is_cut = scope.arguments["most"], dict[UUID, float](), list[UUID](), False
    statement, looked_at, least = NEAR_IN_LISTS, most * FIRST_LOOKED_AT, most * FIRST_LOOKED_AT
    if everything:
        statement, looked_at, least = MEMORIES_IN_LISTS, most * LOOKED_AT, most
    for bank, size in banks.items():
        rows = list[Row[Any]]()
        if size.lists is not None:
            here = {**scope.arguments, "bank": bank, "looked_at": looked_at}
            async with reading_lists(scope.connection, size.lists):
                rows = list(await scope.connection.execute(statement, here))
        if size.lists is None or len(rows) < least:
            whole.append(bank)
            continue
        cosines |= {row.unit_id: float(row.cosine) for row in rows if row.chunk == 0}
        is_cut |= rows[-1].cosine >= scope.arguments["near"]
    return _InLists(cosines, whole, is_cut)


async def _nearest_in_lists(
    scope: _Scope, bank: UUID, lists: int, about: Mapping[str, Any]
) -> Sequence[Row[Any]] | None:
    """Return the nearest of a bank, and what is pinned there; None where an index brings too few of what is asked."""
    here = {**scope.arguments, **about, "banks": [bank], "looked_at": about["limit"] * LOOKED_AT}
    async with reading_lists(scope.connection, lists):
        near = (await scope.connection.execute(_in_lists(bank, about["dimension"]), here)).all()
    if len(near) < about["limit"]:
        return None
    return [*near, *(await scope.connection.execute(PINNED, here))] if about["pins_first"] else near


@lru_cache(maxsize=1000)
def _in_lists(bank: UUID, dimension: int) -> TextClause:
    return text(_IN_LISTS.format(bank=bank, dimension=dimension))


def _rank(one: StoredMemory, pins_first: bool) -> tuple[bool, float, float, int]:  # noqa: FBT001 - of one call
    """Return where a memory stands among others, as the statements order them."""
    return not (one.pin and pins_first), -(one.score or 0.0), -one.created_at.timestamp(), -one.memory_id.int


async def _containing(scope: _Scope, query: str, few: Sequence[UUID] | None) -> RankedUnits:
    """Return the memories that hold the query itself, or each of its words, where the index knows none of these.

    `few`: look at these alone.
    """
    about = {**scope.arguments, "query": query, "words": words_of(query), "most": COMPARED}
    statement = CONTAINING if few is None else CONTAINING_AMONG_FEW
    rows = await scope.connection.execute(statement, about if few is None else {**about, "few": few})
    units = [row.unit_id.hex for row in rows]
    return RankedUnits(units, [1.0] * len(units), are_cut=False)
