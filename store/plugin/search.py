"""Searches of the memory plugin: one over all named namespaces, for memories of the plugin alone.

By text it is a hybrid of words and meaning with a floor: what shares no word with the query, and is not near it, is not
returned. By a caller's vector it is exact, and so is a listing.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from embeddings.errors import EmbeddingError
from embeddings.protocol import Embedder
from store.database import Database
from store.off_loop import off_loop
from store.plugin.memories import COLUMNS, IS_MEMORY, StoredMemory, build_memory
from store.plugin.namespaces import read_namespaces
from store.plugin.vectors import CallersVector, read_dimensions
from store.recall.lexical import POSTING, LexicalScores, Postings, Statistics, score_postings
from store.recall.question import EFFORT, Question, parse_question
from store.recall.recaller import MAX_CHARACTERS
from store.recall.settings import RecallSettings
from store.recall.tail import CHARACTERS, Fresh, select_affordable
from store.recall.waiting import PACKED, WAITING
from store.tenancy.languages import Languages
from store.text.terms import words_of
from store.text.word_rules import WordRules

_OF_BANK = "u.host_id = :host and u.bank_id = any(cast(:banks as uuid[])) and u.seq is not null"
_MEMORY = IS_MEMORY.format(unit="u")
_ID = "cast(u.metadata->'plugin'->>'id' as uuid)"
_PINNED = "coalesce(cast(u.metadata->'plugin'->>'pin' as boolean), false)"
_FROM_UNITS = f"from afterturn.agent_memory_unit_t u where {_OF_BANK} and {_MEMORY}"

LIST = text(f"""
    select {COLUMNS} {_FROM_UNITS}
       and (cast(:letter as text) is null or position(lower(:letter) in lower(u.content)) > 0)
       and (cast(:at as timestamptz) is null
            or ({_PINNED}, u.mentioned_at, {_ID}) < (cast(:pinned as boolean), :at, cast(:id as uuid)))
     order by {_PINNED} desc, u.mentioned_at desc, {_ID} desc limit :limit""")
# A vector is read while its memory names it: another was written for another version of that.
NEAREST = text(f"""
    select {COLUMNS}, 1 - (v.embedding operator(public.<=>) cast(cast(:numbers as real[]) as public.vector)) as score
      from afterturn.plugin_vector_t v
      join afterturn.agent_memory_unit_t u
        on u.host_id = v.host_id and u.bank_id = v.bank_id and u.session_id = v.session_id
     where v.host_id = :host and v.bank_id = any(cast(:banks as uuid[])) and v.dimension = :dimension
       and {_OF_BANK} and {_MEMORY} and u.metadata->'plugin'->>'vector' = v.digest
     order by {_PINNED} and :pins_first desc, score desc, u.mentioned_at desc, {_ID} desc
     limit :limit""")  # noqa: S608 - put together from constants
COUNT = text(f"select count(*) {_FROM_UNITS}")
# Words that stand in the index, and those that wait to be carried there; a memory stands alone.
# One probe of an index a word: joined at large, all memories of the banks would be read for each.
POSTED = text(f"""
    select p.term, {PACKED} as packed
      from (select p.term, u.unit_id as session_id, -1 as seq, p.tf, p.length
              from unnest(cast(:banks as uuid[])) b(bank_id) cross join unnest(cast(:terms as text[])) q(term)
             cross join lateral (select p.bank_id, p.unit_id, p.term, p.tf, p.length from afterturn.posting_t p
                                  where p.host_id = :host and p.bank_id = b.bank_id and p.term = q.term
                                  limit :postings) p
             cross join lateral (select u.unit_id from afterturn.agent_memory_unit_t u
                                  where u.host_id = :host and u.bank_id = p.bank_id and u.unit_id = p.unit_id
                                    and u.seq is not null and {_MEMORY} limit 1) u) p
     group by p.term""")  # noqa: S608 - put together from constants
_WAITING_IN = WAITING.format(unit="").replace("w.bank_id = :bank", "w.bank_id = any(cast(:banks as uuid[]))")
WAITING_WORDS = text(f"""
    select p.term, {PACKED} as packed
      from (select w.term, u.unit_id as session_id, -1 as seq, w.tf, w.length
              from ({_WAITING_IN}) w
             cross join lateral (select u.unit_id from afterturn.agent_memory_unit_t u
                                  where {_OF_BANK} and u.unit_id = w.unit_id and {_MEMORY} limit 1) u) p
     group by p.term""")  # noqa: S608 - put together from constants
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
NEAR = text(f"""
    select n.unit_id, n.cosine
      from unnest(cast(:banks as uuid[])) b(bank_id),
           lateral (select u.unit_id, -(v.embedding <#> cast(:vector as halfvec)) as cosine
                      from afterturn.unit_vector_t v
                      join afterturn.agent_memory_unit_t u
                        on u.host_id = v.host_id and u.bank_id = v.bank_id and u.unit_id = v.unit_id
                     where v.host_id = :host and v.bank_id = b.bank_id and v.generation = :generation and v.chunk = 0
                       and u.host_id = :host and u.bank_id = b.bank_id and u.seq is not null and {_MEMORY}
                     order by v.embedding <#> cast(:vector as halfvec) limit :most) n
     order by n.cosine desc limit :most""")  # noqa: S608 - put together from constants
COSINES = text("""
    select v.unit_id, -(v.embedding <#> cast(:vector as halfvec)) as cosine from afterturn.unit_vector_t v
     where v.host_id = :host and v.bank_id = any(cast(:banks as uuid[])) and v.generation = :generation and v.chunk = 0
       and v.unit_id = any(cast(:units as uuid[]))""")
LOAD = text(f"""
    select {COLUMNS}, q.score
      from unnest(cast(:units as uuid[]), cast(:scores as double precision[])) q(unit_id, score)
      join afterturn.agent_memory_unit_t u on u.unit_id = q.unit_id
     where {_OF_BANK} and {_MEMORY}
     order by {_PINNED} and :pins_first desc, q.score desc, u.mentioned_at desc, {_ID} desc limit :limit""")  # noqa: S608 - put together from constants

#: Candidates compared: of the nearest, and of the best by words.
COMPARED = 400


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
            rows = await connection.execute(NEAREST, {**scope.arguments, **about, "limit": asked.limit})
            return [build_memory(row, max(-1.0, min(1.0, row.score))) for row in rows]

    async def find(
        self, host: UUID, asked: Asked, query: str, *, by_words: bool = False, pins_first: bool = True
    ) -> list[StoredMemory]:
        """Return the memories that share a word with a query or are near it, the best first; `by_words`: those alone.

        An embedder that is late or fails leaves the words.
        """
        question, tail, words = await self._read(host, asked, query)
        vector, fresh = (None, {}) if by_words else await self._embed(question.text, tail)
        async with self._database.tenant(host) as connection:
            scope = await self._scope(connection, host, asked)
            near = {} if vector is None else {**await self._cosines(scope, vector, list(words)), **fresh}
            scores = self._fuse(words, near)
            best = {"units": list(scores), "scores": list(scores.values()), "pins_first": pins_first}
            rows = await connection.execute(LOAD, {**scope.arguments, **best, "limit": asked.limit})
            return [build_memory(row, row.score) for row in rows]

    async def _scope(self, connection: AsyncConnection, host: UUID, asked: Asked) -> _Scope:
        now = self._clock()
        living = [one.bank for one in await read_namespaces(connection, host, asked.names) if not one.has_ended(now)]
        return _Scope(connection, {"host": host, "banks": living, "kinds": list(asked.kinds) or None, "now": now})

    async def _read(self, host: UUID, asked: Asked, query: str) -> tuple[Question, list[Fresh], Mapping[UUID, float]]:
        """Return the question, what has no vector yet, and each memory that shares words with it, by how much."""
        cut = query.strip()[:MAX_CHARACTERS]
        async with self._database.tenant(host) as connection:
            banks = (await self._scope(connection, host, asked)).banks
        rules = await self._rules(host, banks)
        question = await off_loop(EFFORT * len(cut), lambda: parse_question(cut, rules=rules))
        async with self._database.tenant(host) as connection:
            scope = await self._scope(connection, host, asked)
            words = await self._score_words(scope, question) or await _containing(scope, cut)
            return question, await self._tail(scope), words

    async def _rules(self, host: UUID, banks: Sequence[UUID]) -> Sequence[WordRules]:
        """Return the rules by which words of any of these banks are cut."""
        rules = [rule for bank in banks for rule in await self._languages.asking(host, bank)]
        return list({rule.name: rule for rule in rules}.values()) or parse_question("").rules

    async def _score_words(self, scope: _Scope, question: Question) -> Mapping[UUID, float]:
        terms = [*question.words, *question.pairs]
        if not terms:
            return {}
        about = {**scope.arguments, "terms": terms, "postings": self._settings.postings}
        packed: dict[str, bytes] = defaultdict(bytes)
        for statement in (POSTED, WAITING_WORDS):
            for row in await scope.connection.execute(statement, about):
                packed[row.term] += row.packed
        if not packed:
            return {}
        count = int((await scope.connection.execute(COUNT, scope.arguments)).scalar_one())
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

    async def _cosines(self, scope: _Scope, vector: NDArray[np.float32], units: Sequence[UUID]) -> dict[UUID, float]:
        """Return how near the nearest memories are, and these units."""
        about = {**scope.arguments, "vector": vector, "generation": self._embedder.generation}
        near = await scope.connection.execute(NEAR, {**about, "most": COMPARED})
        found = {row.unit_id: float(row.cosine) for row in near}
        beside = await scope.connection.execute(COSINES, {**about, "units": list(units)})
        return found | {row.unit_id: float(row.cosine) for row in beside}

    def _fuse(self, words: Mapping[UUID, float], near: Mapping[UUID, float]) -> Mapping[UUID, float]:
        """Return the score, from 0 to 1, of what shares a word or is near."""
        weight = self._settings.ranking.dense_weight
        kept = [unit for unit in {**words, **near} if words.get(unit, 0) > 0 or near.get(unit, 0) >= self._near]
        return {unit: (words.get(unit, 0) + weight * max(0.0, near.get(unit, 0))) / (1 + weight) for unit in kept}


async def _containing(scope: _Scope, query: str) -> Mapping[UUID, float]:
    """Return the memories that hold the query itself, or each of its words, where the index knows none of these."""
    about = {"query": query, "words": words_of(query), "most": COMPARED}
    rows = await scope.connection.execute(CONTAINING, {**scope.arguments, **about})
    return {row.unit_id: 1.0 for row in rows}
