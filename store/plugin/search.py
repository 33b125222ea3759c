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
from store.database import Database
from store.off_loop import off_loop
from store.plugin.memories import COLUMNS, IS_MEMORY, StoredMemory, build_memory
from store.plugin.namespaces import read_namespaces
from store.plugin.vectors import CallersVector, read_dimensions, read_lists, reading_lists
from store.recall.lexical import POSTING, LexicalScores, Postings, Statistics, score_postings
from store.recall.question import EFFORT, Question, parse_question
from store.recall.recaller import MAX_CHARACTERS
from store.recall.settings import RecallSettings
from store.recall.tail import CHARACTERS, Fresh, select_affordable
from store.recall.waiting import PACKED, WAITING
from store.tenancy.languages import Languages
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
# Words that stand in the index, and those that wait to be carried there; a memory stands alone.
# One probe of an index a word: joined at large, all memories of the banks would be read for each.
_POSTED = f"""
    select p.term, {PACKED} as packed
      from (select p.term, u.unit_id as session_id, -1 as seq, p.tf, p.length
              from unnest(cast(:banks as uuid[])) b(bank_id) cross join unnest(cast(:terms as text[])) q(term)
             cross join lateral (select p.bank_id, p.unit_id, p.term, p.tf, p.length from afterturn.posting_t p
                                  where p.host_id = :host and p.bank_id = b.bank_id and p.term = q.term
                                  limit :postings) p
             cross join lateral (select u.unit_id from afterturn.agent_memory_unit_t u
                                  where u.host_id = :host and u.bank_id = p.bank_id and u.unit_id = p.unit_id
                                    and u.seq is not null and {_MEMORY} limit 1) u) p
     group by p.term"""  # noqa: S608 - put together from constants
_WAITING_IN = WAITING.format(unit="").replace("w.bank_id = :bank", "w.bank_id = any(cast(:banks as uuid[]))")
_WAITING_WORDS = f"""
    select p.term, {PACKED} as packed
      from (select w.term, u.unit_id as session_id, -1 as seq, w.tf, w.length
              from ({_WAITING_IN}) w
             cross join lateral (select u.unit_id from afterturn.agent_memory_unit_t u
                                  where {_OF_BANK} and u.unit_id = w.unit_id and {_MEMORY} limit 1) u) p
     group by p.term"""  # noqa: S608 - put together from constants
# One round trip: the words of the question, and how large each bank is, its units whose words wait included; of a
# large one, how many lists of the index by nearness are read.
WORDS = text(f"""
    select w.term, w.packed, null as bank_id, null as units, null as lists
      from ({_POSTED} union all {_WAITING_WORDS}) w
     union all
    select null, null, b.bank_id,
           coalesce(s.units, 0) + (select count(*) from afterturn.unit_word_t w
                                    where w.host_id = :host and w.bank_id = b.bank_id and not w.posted),
           case when s.units > :exact_units then afterturn.lists_to_read(b.bank_id, s.units, :read_units) end
      from unnest(cast(:banks as uuid[])) b(bank_id)
      left join afterturn.bank_statistics_t s on s.host_id = :host and s.bank_id = b.bank_id""")  # noqa: S608
CONTAINING = text(f"""
    select u.unit_id {_FROM_UNITS}
       and (position(lower(:query) in lower(u.content)) > 0
            or (cardinality(cast(:words as text[])) > 0 and not exists (
                select from unnest(cast(:words as text[])) q(word)
                 where position(q.word in afterturn.folded(u.content)) = 0)))
     order by u.mentioned_at desc, u.unit_id limit :most""")  # noqa: S608 - put together from constants
# What no worker has embedded yet, the newest first.
FRESH = text(f"""
    select u.unit_id, left(u.content, :characters) as content
      from (select l.bank_id, l.turn_id from afterturn.ledger_t l
             where l.host_id = :host and l.bank_id = any(cast(:banks as uuid[])) and l.stage = 'embedding' and l.undone
             order by l.position desc limit :chunks) l
     cross join lateral (select u.* from afterturn.agent_memory_unit_t u
                          where u.host_id = :host and u.bank_id = l.bank_id and u.turn_id = l.turn_id
                            and u.seq is not null and {_MEMORY} limit 1) u
     where not exists (select from afterturn.unit_vector_t v
                        where v.host_id = :host and v.bank_id = u.bank_id and v.generation = :generation
                          and v.unit_id = u.unit_id)
     order by u.mentioned_at desc limit :chunks""")  # noqa: S608 - put together from constants
# The nearest memories of each bank, and how near these units and the pinned ones are. An order that no index can serve
# is exact.
_NEAR = f"""
    select n.bank_id, n.unit_id, n.cosine from unnest(cast(:whole as uuid[])) b(bank_id), lateral ({{nearest}}) n
     union all
    select null, p.unit_id, -(v.embedding <#> cast(:vector as halfvec))
      from unnest(cast(:banks as uuid[])) b(bank_id)
     cross join lateral (select u.bank_id, u.unit_id from afterturn.agent_memory_unit_t u
                          where u.host_id = :host and u.bank_id = b.bank_id and u.seq is not null and {_MEMORY}
                            and u.metadata->'plugin'->>'pin' = 'true'
                          order by u.mentioned_at desc limit :pins) p
     cross join lateral (select v.embedding from afterturn.unit_vector_t v
                          where {_CHUNK} and v.bank_id = p.bank_id and v.unit_id = p.unit_id limit 1) v
     union all
    select null, v.unit_id, -(v.embedding <#> cast(:vector as halfvec)) from afterturn.unit_vector_t v
     where {_CHUNK} and v.bank_id = any(cast(:banks as uuid[])) and v.unit_id = any(cast(:units as uuid[]))"""  # noqa: S608 - put together from constants
# What is no memory is left out of the nearest `looked_at`: fewer memories are opened.
_OF_FIRST = f"""
    select b.bank_id, u.unit_id, c.cosine
      from (select v.unit_id, -(v.embedding <#> cast(:vector as halfvec)) as cosine from afterturn.unit_vector_t v
             where {_CHUNK} and v.bank_id = b.bank_id
             order by (v.embedding <#> cast(:vector as halfvec)) + 0 limit :looked_at) c
      join afterturn.agent_memory_unit_t u
        on u.host_id = :host and u.bank_id = b.bank_id and u.unit_id = c.unit_id
     where u.seq is not null and {_MEMORY}
     order by c.cosine desc limit :most"""  # noqa: S608 - put together from constants
_OF_ALL = f"""
    select b.bank_id, u.unit_id, -(v.embedding <#> cast(:vector as halfvec)) as cosine
      from afterturn.unit_vector_t v
      join afterturn.agent_memory_unit_t u
        on u.host_id = v.host_id and u.bank_id = v.bank_id and u.unit_id = v.unit_id
     where {_CHUNK} and v.bank_id = b.bank_id
       and u.host_id = :host and u.bank_id = b.bank_id and u.seq is not null and {_MEMORY}
     order by (v.embedding <#> cast(:vector as halfvec)) + 0 limit :most"""  # noqa: S608 - put together from constants
NEAR_FIRST, NEAR_ALL = (text(_NEAR.format(nearest=nearest)) for nearest in (_OF_FIRST, _OF_ALL))
# The order that an index of lists serves; what is no memory, and other kinds, are left out of the nearest.
NEAR_IN_LISTS = text(f"""
    with near as materialized (
        select v.unit_id, v.chunk, -(v.embedding <#> cast(:vector as halfvec)) as cosine
          from afterturn.unit_vector_t v
         where v.host_id = :host and v.bank_id = :bank and v.generation = :generation
         order by v.embedding <#> cast(:vector as halfvec) limit :looked_at)
    select u.unit_id, n.cosine
      from near n
      join afterturn.agent_memory_unit_t u on u.host_id = :host and u.bank_id = :bank and u.unit_id = n.unit_id
     where n.chunk = 0 and u.seq is not null and {_MEMORY}
     order by n.cosine desc limit :most""")  # noqa: S608 - put together from constants
LOAD = text(f"""
    select {COLUMNS}, q.score
      from unnest(cast(:units as uuid[]), cast(:scores as double precision[])) q(unit_id, score)
      join afterturn.agent_memory_unit_t u on u.unit_id = q.unit_id
     where {_OF_BANK} and {_MEMORY}
     order by {_PINNED} and :pins_first desc, q.score desc, u.mentioned_at desc, {_ID} desc limit :limit""")  # noqa: S608 - put together from constants

#: Candidates compared: of the best by words, and of the pinned in each namespace.
COMPARED = 400
#: The nearest memories compared in each namespace, or the limit of the search if that is higher. A search returns no
#: more of them; the cosines of memories that share words, and of pinned ones, are read in addition.
NEAREST_COMPARED = 100
#: Units read from an index for each memory that is wanted. If fewer than one in ten is one, the index is left and all
#: of the namespace is read.
LOOKED_AT = 10
#: Without an index: units read first for each memory that is wanted; all, if these are too few memories.
FIRST_LOOKED_AT = 2


@dataclass(frozen=True, slots=True)
class Place:
    """The last memory of a page of a listing: the next page begins behind it."""

    pinned: bool
    created_at: datetime
    memory_id: UUID


@dataclass(frozen=True, slots=True)
class Asked:
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
class _Read:
    """What was read for a query: each memory that shares words with it, by how much; what has no vector yet."""

    question: Question
    words: Mapping[UUID, float] = field(default_factory=dict)
    tail: Sequence[Fresh] = ()
    banks: Mapping[UUID, _Size] = field(default_factory=dict)


class PluginSearch:
    """Lists and finds memories of a tenant's namespaces; one that is not there, or has expired, has none.

    `near`: the least cosine of what shares no word with a query.
    """

    def __init__(
        self,
        database: Database,
        embedder: Embedder,
        settings: RecallSettings,
        clock: Callable[[], datetime],
        near: float,
    ) -> None:
        self._database, self._embedder, self._settings = database, embedder, settings
        self._clock, self._near = clock, near
        self._languages = Languages(database)

    async def page(
        self, host: UUID, asked: Asked, after: Place | None = None, letter: str | None = None
    ) -> list[StoredMemory]:
        """List memories: pinned ones, the newest, then by id; `letter`: those that hold it, in either case."""
        begin = {"pinned": after and after.pinned, "at": after and after.created_at, "id": after and after.memory_id}
        async with self._database.tenant(host) as connection:
            scope = await self._scope(connection, host, asked)
            rows = await connection.execute(LIST, {**scope.arguments, **begin, "letter": letter, "limit": asked.limit})
            return [build_memory(row) for row in rows]

    async def vectors(self, host: UUID, asked: Asked, memories: Sequence[StoredMemory]) -> dict[UUID, Sequence[float]]:
        """Return the callers' vectors of listed memories by unit, of the length that they were sent with."""
        async with self._database.tenant(host) as connection:
            scope = await self._scope(connection, host, asked)
            about = {**scope.arguments, "units": [one.unit for one in memories]}
            rows = await connection.execute(VECTORS, about)
            return {row.unit_id: [float(number) * row.norm for number in row.numbers] for row in rows}

    async def dimensions(self, host: UUID, asked: Asked) -> list[int]:
        """Return the dimensions of the callers' vectors that the namespaces hold."""
        async with self._database.tenant(host) as connection:
            return await read_dimensions(connection, host, (await self._scope(connection, host, asked)).banks)

    async def nearest(
        self, host: UUID, asked: Asked, vector: CallersVector, *, pins_first: bool = True
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
        self, host: UUID, asked: Asked, query: str, *, by_words: bool = False, pins_first: bool = True
    ) -> list[StoredMemory]:
        """Return the memories that share a word with a query or are near it, the best first; `by_words`: those alone.

        An embedder that is late or fails leaves the words.
        """
        read = await self._read(host, asked, query)
        if not read.banks:
            return []
        vector, fresh = (None, {}) if by_words else await self._embed(read.question.text, read.tail)
        async with self._database.tenant(host) as connection:
            scope = _Scope(connection, self._arguments(host, list(read.banks), asked))
            most = max(NEAREST_COMPARED, asked.limit)
            pins = COMPARED if pins_first else 0
            near = {} if vector is None else {**await self._cosines(scope, vector, read, most, pins), **fresh}
            scores = self._fuse(read.words, near)
            best = {"units": list(scores), "scores": list(scores.values()), "pins_first": pins_first}
            rows = await connection.execute(LOAD, {**scope.arguments, **best, "limit": asked.limit})
            return [build_memory(row, row.score) for row in rows]

    async def _scope(self, connection: AsyncConnection, host: UUID, asked: Asked) -> _Scope:
        rows = await read_namespaces(connection, host, asked.names)
        arguments = self._arguments(host, [], asked)
        living = [one.bank for one in rows if not one.has_ended(arguments["now"])]
        return _Scope(connection, {**arguments, "banks": living})

    def _arguments(self, host: UUID, banks: Sequence[UUID], asked: Asked) -> dict[str, Any]:
        return {"host": host, "banks": banks, "kinds": list(asked.kinds) or None, "now": self._clock()}

    async def _read(self, host: UUID, asked: Asked, query: str) -> _Read:
        """Read what the words of a query find, and what has no vector yet."""
        cut = query.strip()[:MAX_CHARACTERS]
        rules = await self._rules(host, [identity.bank_id(host, name) for name in asked.names])
        question = await off_loop(EFFORT * len(cut), lambda: parse_question(cut, rules=rules))
        async with self._database.tenant(host) as connection:
            scope = await self._scope(connection, host, asked)
            if not scope.banks:
                return _Read(question)
            packed, banks = await self._read_words(scope, question)
            words = await self._rank(packed, question, banks) or await _containing(scope, cut)
            return _Read(question, words, await self._tail(scope), banks)

    async def _rules(self, host: UUID, banks: Sequence[UUID]) -> Sequence[WordRules]:
        """Return the rules by which words of any of these banks are cut."""
        rules = [rule for bank in banks for rule in await self._languages.asking(host, bank)]
        return list({rule.name: rule for rule in rules}.values()) or parse_question("").rules

    async def _read_words(self, scope: _Scope, question: Question) -> tuple[Mapping[str, bytes], Mapping[UUID, _Size]]:
        """Return the postings of each word of a question, and how large each bank is."""
        settings = self._settings
        about = {
            "terms": [*question.words, *question.pairs],
            "postings": settings.postings,
            "exact_units": settings.exact_units,
            "read_units": settings.read_units,
        }
        packed, banks = defaultdict[str, bytes](bytes), dict[UUID, _Size]()
        for row in await scope.connection.execute(WORDS, {**scope.arguments, **about}):
            if row.bank_id is None:
                packed[row.term] += row.packed
            else:
                banks[row.bank_id] = _Size(row.units, row.lists)
        return packed, banks

    async def _rank(
        self, packed: Mapping[str, bytes], question: Question, banks: Mapping[UUID, _Size]
    ) -> Mapping[UUID, float]:
        if not packed:
            return {}
        count = sum(one.units for one in banks.values())
        postings = {term: np.frombuffer(some, dtype=POSTING) for term, some in packed.items()}
        return await off_loop(sum(map(len, postings.values())), lambda: self._rank_words(postings, question, count))

    def _rank_words(self, postings: Mapping[str, Postings], question: Question, count: int) -> Mapping[UUID, float]:
        """Return the score by words of each memory, from 0 to 1, of the best."""
        together = np.concatenate(list(postings.values()))
        _, first = np.unique(together["session"].view("S16"), return_index=True)
        mean = float(together["length"][first].mean())
        frequencies = Counter({term: len(some) for term, some in postings.items()})
        statistics = Statistics(max(count, len(first)), mean, frequencies)
        scores: LexicalScores = score_postings(postings, question, statistics, self._settings.ranking)
        places = scores.best(COMPARED)
        values = scores.of(places, np.zeros(len(places), dtype=np.bool_))
        return {unit: float(value) for (unit, _), value in zip(places, values, strict=True)}

    async def _tail(self, scope: _Scope) -> list[Fresh]:
        about = {
            "chunks": self._settings.fresh_tail_chunks,
            "characters": CHARACTERS,
            "generation": self._embedder.generation,
        }
        rows = await scope.connection.execute(FRESH, {**scope.arguments, **about})
        return [Fresh(row.unit_id, row.content) for row in rows]

    async def _embed(
        self, query: str, tail: Sequence[Fresh]
    ) -> tuple[NDArray[np.float32] | None, Mapping[UUID, float]]:
        """Return the query's vector and how near the fresh tail is to it; never raises for what an embedder does."""
        try:
            async with asyncio.timeout(self._settings.embed_deadline_ms / 1000):
                read = select_affordable(tail, query, self._settings.fresh_tail_ms, self._embedder.estimate_ms)
                vectors = await self._embedder.embed([query, *(fresh.content for fresh in read)])
        except (TimeoutError, EmbeddingError):
            return None, {}
        cosines = vectors[1:] @ vectors[0]
        return vectors[0], {fresh.unit_id: float(one) for fresh, one in zip(read, cosines, strict=True)}

    async def _cosines(
        self, scope: _Scope, vector: NDArray[np.float32], read: _Read, most: int, pins: int
    ) -> dict[UUID, float]:
        """Return how near the nearest `most` memories of each bank are, those that share words, and pinned ones."""
        about = {**scope.arguments, "vector": vector, "generation": self._embedder.generation, "most": most}
        found = dict[UUID, dict[UUID, float]]()
        for bank, size in read.banks.items():
            if size.lists is not None and (near := await _near_in_lists(scope, bank, size.lists, about)) is not None:
                found[bank] = near
        about |= {"units": list(read.words), "looked_at": FIRST_LOOKED_AT * most, "pins": pins}
        whole = [bank for bank in read.banks if bank not in found]
        if scope.arguments["kinds"]:
            beside = await _near(scope, NEAR_ALL, {**about, "whole": whole}, found)
            return _flatten(found) | beside
        beside = await _near(scope, NEAR_FIRST, {**about, "whole": whole}, found)
        short = [bank for bank in whole if len(found.get(bank, ())) < most]
        if short := [bank for bank in short if read.banks[bank].units > about["looked_at"]]:
            await _near(scope, NEAR_ALL, {**about, "whole": short, "units": [], "pins": 0}, found)
        return _flatten(found) | beside

    def _fuse(self, words: Mapping[UUID, float], near: Mapping[UUID, float]) -> Mapping[UUID, float]:
        """Return the score, from 0 to 1, of what shares a word or is near."""
        weight = self._settings.ranking.dense_weight
        kept = [unit for unit in {**words, **near} if words.get(unit, 0) > 0 or near.get(unit, 0) >= self._near]
        return {unit: (words.get(unit, 0) + weight * max(0.0, near.get(unit, 0))) / (1 + weight) for unit in kept}


def _flatten(found: Mapping[UUID, Mapping[UUID, float]]) -> dict[UUID, float]:
    return {unit: cosine for some in found.values() for unit, cosine in some.items()}


async def _near(
    scope: _Scope, statement: TextClause, about: Mapping[str, Any], found: dict[UUID, dict[UUID, float]]
) -> dict[UUID, float]:
    """Add the nearest memories of whole banks to what is found; return how near the named units are."""
    beside = dict[UUID, float]()
    for row in await scope.connection.execute(statement, about):
        (beside if row.bank_id is None else found.setdefault(row.bank_id, {}))[row.unit_id] = float(row.cosine)
    return beside


async def _near_in_lists(scope: _Scope, bank: UUID, lists: int, about: Mapping[str, Any]) -> dict[UUID, float] | None:
    """Return the nearest memories of a large bank; None where the lists that are read bring too few."""
    here = {**about, "bank": bank, "looked_at": about["most"] * LOOKED_AT}
    async with reading_lists(scope.connection, lists):
        rows = (await scope.connection.execute(NEAR_IN_LISTS, here)).all()
    return {row.unit_id: float(row.cosine) for row in rows} if len(rows) >= about["most"] else None


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


async def _containing(scope: _Scope, query: str) -> Mapping[UUID, float]:
    """Return the memories that hold the query itself, or each of its words, where the index knows none of these."""
    about = {"query": query, "words": words_of(query), "most": COMPARED}
    rows = await scope.connection.execute(CONTAINING, {**scope.arguments, **about})
    return {row.unit_id: 1.0 for row in rows}
