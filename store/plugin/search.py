"""Searches memories of the plugin, and no other units, over all namespaces of a call.

A search by text is a hybrid of words and meaning with a floor: memories that share no word with the query and are not
near it are not returned. A search by a caller's vector is exact up to the size at which maintenance builds an index
(`recall.exact_units`); a listing is always exact. If an index gives too few memories, all vectors are compared.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum, auto
from itertools import accumulate
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.ext.asyncio import AsyncConnection

from embeddings.errors import EmbeddingError
from embeddings.protocol import Embedder, pin_model
from store import identity
from store.concurrent_calls import gather_or_cancel
from store.database import ONE_PLAN, Database
from store.driver_rows import DriverRow, fetch_rows
from store.off_loop import run_off_loop
from store.page_bytes import MOST_BYTES, PageRows, build_page
from store.plugin.listing_queries import LIST
from store.plugin.memories import StoredMemory, build_memory
from store.plugin.namespaces import read_namespaces
from store.plugin.nearness import BEST, LOOKED_AT, SCORE_DIGITS, BankSize, NearSearch, NearUnits
from store.plugin.vectors import (
    NEAREST,
    PINNED,
    VECTORS,
    CallersVector,
    probe_lists,
    read_dimensions,
    read_lists,
    select_nearest,
)
from store.plugin.word_queries import CONTAINING, CONTAINING_AMONG_FEW, READ_FEW, READ_WORDS, READ_WORDS_OF_MEMORIES
from store.recall.dense_arm import DenseArm
from store.recall.lexical import ALONE, RankedUnits, rank_units
from store.recall.meaning import TailCache
from store.recall.question import EFFORT, Question, parse_question
from store.recall.recaller import MAX_CHARACTERS
from store.recall.settings import RecallSettings
from store.recall.tail import CHARACTERS, UnembeddedText, select_affordable
from store.tenancy.languages import Languages, choose_rules
from store.text.terms import split_words
from store.text.word_rules import WordRules

#: Most candidates compared: of the best by words, and of the pinned memories of each namespace.
COMPARED = 400
#: The nearest memories compared in each namespace, or the limit of the search if that is higher; the cosines of those
#: that share words, and of pinned ones, are read in addition.
NEAREST_COMPARED = 100
#: Best units whose rows are read first for each memory that is wanted. If too few of them are memories, all memories of
#: the namespace are compared.
OPENED = 5
#: Most memories of the asked kinds that are all compared; if there are more, the best units of any kind are compared.
FEW = 5_000
MOST = 2**31 - 1


class _Reach(Enum):
    """The set that a search compares: each of few memories, the best units of any kind, or all memories."""

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
    bank: UUID


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """The scope of a search: the names of namespaces, the kinds of memories (none: all), and the most it returns."""

    names: Sequence[str]
    kinds: Sequence[str]
    limit: int


@dataclass(frozen=True, slots=True)
class FoundMemories:
    """The memories that a search by text found, best first.

    `unembedded`: how many of the newest texts had no vector in time, and so were found by words alone.
    """

    memories: Sequence[StoredMemory]
    unembedded: int = 0


@dataclass(frozen=True, slots=True)
class _Scope:
    """A search within its transaction: its connection, and the parameters of all its statements."""

    connection: AsyncConnection
    arguments: Mapping[str, Any] = field(repr=False)

    @property
    def banks(self) -> Sequence[UUID]:
        banks: Sequence[UUID] = self.arguments["banks"]
        return banks


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A search by text: the question, its model, its vector if there is one, and whether pinned memories come first."""

    host: UUID
    asked: SearchQuery
    question: Question
    model: Embedder
    vector: NDArray[np.float32] | None
    pins_first: bool


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The first rows of a search: sizes of banks, units that share words with it, the fresh tail.

    `few`: the memories of rare kinds, with their banks.
    """

    banks: Mapping[UUID, BankSize]
    words: RankedUnits
    tail: Sequence[UnembeddedText] = ()
    few: Mapping[UUID, UUID] = field(default_factory=dict)


class PluginSearch:
    """The reader of memories: lists and finds them in a tenant's namespaces; missing and expired ones have none.

    `near`: the least cosine of a memory that shares no word with a query. `few`: the most memories of the asked kinds
    that are all compared.
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
        self._tails = TailCache()

    async def page(
        self, host: UUID, asked: SearchQuery, after: ListingCursor | None = None, letter: str | None = None
    ) -> PageRows[StoredMemory]:
        """Return a page of memories, pinned first, then by falling time, id and bank; `letter`: those that contain it.

        `letter` matches in either case. A page of MOST_BYTES ends before its limit.
        """
        begin = {
            "pinned": after and after.pinned,
            "at": after and after.created_at,
            "id": after and after.memory_id,
            "bank": after and after.bank,
        }
        async with self._database.tenant(host) as connection:
            scope = await self._open_scope(connection, host, asked)
            about = {**scope.arguments, **begin, "letter": letter, "limit": asked.limit + 1}
            rows = await fetch_rows(connection, LIST, about)
        return build_page(rows, asked.limit, build_memory)

    async def vectors(
        self, host: UUID, asked: SearchQuery, memories: Sequence[StoredMemory]
    ) -> dict[UUID, Sequence[float]]:
        """Return the callers' vectors of listed memories by unit, with their original length."""
        async with self._database.tenant(host) as connection:
            scope = await self._open_scope(connection, host, asked)
            about = {**scope.arguments, "units": [one.unit for one in memories]}
            rows = await fetch_rows(connection, VECTORS, about)
            return {row.unit_id: (np.array(row.numbers, np.float64) * row.norm).tolist() for row in rows}

    async def dimensions(self, host: UUID, asked: SearchQuery) -> list[int]:
        """Return the dimensions of the callers' vectors that the namespaces hold."""
        async with self._database.tenant(host) as connection:
            return await read_dimensions(connection, host, (await self._open_scope(connection, host, asked)).banks)

    async def nearest(
        self, host: UUID, asked: SearchQuery, vector: CallersVector, *, pins_first: bool = True
    ) -> list[StoredMemory]:
        """Return the memories whose callers' vectors of this dimension are nearest; the score is 1 - distance.

        No further memory is added to those that have MOST_BYTES.
        """
        about = {"numbers": list(vector.numbers), "dimension": vector.dimension, "pins_first": pins_first}
        async with self._database.tenant(host) as connection:
            scope = await self._open_scope(connection, host, asked)
            whole, best = set(scope.banks), list[StoredMemory]()
            for bank, lists in await read_lists(connection, scope.banks, vector.dimension, self._settings.read_units):
                near = await _nearest_in_lists(scope, bank, lists, {**about, "limit": asked.limit})
                if near is not None:
                    whole.remove(bank)
                    best = _merge_memories(best, near, asked.limit, pins_first=pins_first)
            if whole:
                one_by_one = {**scope.arguments, **about, "banks": list(whole), "limit": asked.limit}
                near = await fetch_rows(connection, NEAREST, one_by_one)
                best = _merge_memories(best, near, asked.limit, pins_first=pins_first)
            return best

    async def find(
        self,
        host: UUID,
        asked: SearchQuery,
        query: str,
        *,
        by_words: bool = False,
        pins_first: bool = True,
    ) -> FoundMemories:
        """Return the memories that share a word with a query or are near it; `by_words`: those that share a word alone.

        If the embedder is late or fails, the search is by words alone.
        """
        cut = query.strip()[:MAX_CHARACTERS]
        rules = await self._read_rules(host, asked.names)
        question = await run_off_loop(EFFORT * len(cut), lambda: parse_question(cut, rules=rules))
        model = pin_model(self._embedder)
        vector = None if by_words else await self._embed_query(cut, model)
        wanted = _Wanted(host, asked, question, model, vector, pins_first)
        for reach in _Reach:
            if reach is _Reach.FEW and not (asked.kinds and self._few):
                continue
            if (found := await self._search(wanted, reach)) is not None:
                return found
        return FoundMemories(())

    async def _open_scope(self, connection: AsyncConnection, host: UUID, asked: SearchQuery) -> _Scope:
        rows = await read_namespaces(connection, host, asked.names)
        arguments = self._build_arguments(host, [], asked)
        living = [one.bank for one in rows if not one.has_ended(arguments["now"])]
        return _Scope(connection, {**arguments, "banks": living})

    def _build_arguments(self, host: UUID, banks: Sequence[UUID], asked: SearchQuery) -> dict[str, Any]:
        return {"host": host, "banks": banks, "kinds": list(asked.kinds) or None, "now": self._clock()}

    async def _read_rules(self, host: UUID, names: Sequence[str]) -> Sequence[WordRules]:
        """Return the word rules of all languages of these namespaces."""
        known = await self._languages.of(host)
        rules = [rule for name in names for rule in choose_rules(known, identity.bank_id(host, name)).asking]
        return list({rule.name: rule for rule in rules}.values())

    async def _search(self, wanted: _Wanted, reach: _Reach) -> FoundMemories | None:
        """Search once; return None if `reach` was too small, which is never so of all memories."""
        async with self._database.tenant(wanted.host, ONE_PLAN) as connection:
            read = await self._read_candidates(connection, wanted, reach)
            if read is None or wanted.vector is None:
                return None if read is None else await self._read_best(connection, wanted, read, NearUnits(), reach)
            near = self._plan_near_search(wanted, wanted.vector, reach)
            compared = {} if reach is _Reach.FEW else read.banks
            if len(compared) <= 1 and not read.tail:
                return await self._read_best(connection, wanted, read, await near.run(connection, compared), reach)
        fresh = self._embed_tail(wanted, wanted.vector, read.tail)
        parts = await gather_or_cancel(near.run_in_lanes(self._database, compared), fresh)
        found = NearUnits.join(parts)
        async with self._database.tenant(wanted.host, ONE_PLAN) as connection:
            best = await self._read_best(connection, wanted, read, found, reach)
        return best and replace(best, unembedded=sum(one.unit_id not in found.cosines for one in read.tail))

    def _plan_near_search(self, wanted: _Wanted, vector: NDArray[np.float32], reach: _Reach) -> NearSearch:
        about = {
            **self._build_arguments(wanted.host, [], wanted.asked),
            "vector": vector,
            "generation": wanted.model.generation,
            "near": self._near,
        }
        return NearSearch(max(NEAREST_COMPARED, wanted.asked.limit), reach is _Reach.ALL, about)

    async def _read_candidates(self, connection: AsyncConnection, wanted: _Wanted, reach: _Reach) -> _Candidates | None:
        """Return the units that share words with the question, the fresh tail, and the banks' sizes.

        None if `reach` is FEW and there are more than `few` memories of the asked kinds.
        """
        settings, question = self._settings, wanted.question
        named = [identity.bank_id(wanted.host, name) for name in dict.fromkeys(wanted.asked.names)]
        about = {
            **self._build_arguments(wanted.host, named, wanted.asked),
            "terms": list(question.words),
            "postings": settings.postings,
            "too_many": self._few + 1,
            "exact_units": settings.exact_units,
            "read_units": settings.read_units,
            "chunks": 0 if wanted.vector is None else settings.fresh_tail_chunks,
            "characters": CHARACTERS,
            "generation": wanted.model.generation,
        }
        packed = defaultdict[str, defaultdict[UUID, bytes]](lambda: defaultdict(bytes))
        banks, tail, few, unread = dict[UUID, BankSize](), list[UnembeddedText](), dict[UUID, UUID](), Counter[str]()
        for row in await fetch_rows(connection, _STATEMENTS[reach], about):
            if row.packed is not None:
                packed[row.term][row.bank_id] += row.packed
            elif row.term is not None:
                unread[row.term] += row.units
            elif row.content is not None:
                tail.append(UnembeddedText(row.unit_id, row.content))
            elif row.unit_id is not None:
                few[row.unit_id] = row.bank_id
            elif row.bank_id is not None:
                banks[row.bank_id] = BankSize(row.units, row.lists)
            elif row.units > self._few:
                return None
        units, most = sum(one.units for one in banks.values()), len(few) or COMPARED
        words = await self._rank_words(packed, unread, question, units, most)
        if banks and not words.units:
            scope = _Scope(connection, self._build_arguments(wanted.host, list(banks), wanted.asked))
            words = await _find_containing(scope, question.text, list(few) if reach is _Reach.FEW else None)
        return _Candidates(banks, words, tail, few)

    async def _rank_words(
        self,
        packed: Mapping[str, Mapping[UUID, bytes]],
        unread: Mapping[str, int],
        question: Question,
        units: int,
        most: int,
    ) -> RankedUnits:
        """Return the best units that share words with a question, in banks of together `units` units."""
        postings = {
            term: {bank: np.frombuffer(some, dtype=ALONE) for bank, some in of_banks.items()}
            for term, of_banks in packed.items()
        }
        effort = sum(len(some) for of_banks in postings.values() for some in of_banks.values())
        return await run_off_loop(effort, lambda: rank_units(postings, question, units, most, unread=unread))

    async def _read_best(
        self,
        connection: AsyncConnection,
        wanted: _Wanted,
        read: _Candidates,
        near: NearUnits,
        reach: _Reach,
    ) -> FoundMemories | None:
        """Return the best memories by words and nearness, None if `reach` was too small."""
        if not read.banks:
            return FoundMemories(())
        limit, said = wanted.asked.limit, set(read.words.units)
        unsaid = {unit.hex: bank for unit, bank in read.few.items() if unit.hex not in said}
        about = {
            **self._build_arguments(wanted.host, list(read.banks), wanted.asked),
            "vector": wanted.vector,
            "generation": wanted.model.generation,
            "near": self._near,
            "weight": DenseArm.weight,
            "known": list(near.cosines),
            "cosines": list(near.cosines.values()),
            "units": [*read.words.units, *unsaid],
            "of_banks": [*read.words.banks, *unsaid.values()],
            "scores": [*read.words.scores, *[0.0] * len(unsaid)],
            "pins": COMPARED if wanted.pins_first else 0,
            "pins_first": wanted.pins_first,
            # Among the best units few may be of the asked kinds.
            "opened": MOST if reach is _Reach.ALL or wanted.asked.kinds else max(NEAREST_COMPARED, OPENED * limit),
            "limit": limit,
        }
        rows = await fetch_rows(connection, BEST, about)
        found = [build_memory(row, row.score) for row in rows if row.unit_id is not None]
        is_cut, matched = rows[0].cut or near.are_cut or read.words.are_cut, rows[0].matched or 0
        if matched < limit and reach is _Reach.BEST and (is_cut or _are_others(read, found)):
            return None
        return FoundMemories(sorted(found, key=lambda one: _sort_key(one, wanted.pins_first)))

    async def _embed_query(self, query: str, model: Embedder) -> NDArray[np.float32] | None:
        """Return the query's vector, None if the embedder fails or is late."""
        try:
            async with asyncio.timeout(self._settings.embed_deadline_ms / 1000):
                vector: NDArray[np.float32] = (await model.embed([query]))[0]
        except (TimeoutError, EmbeddingError):
            return None
        return vector

    async def _embed_tail(
        self, wanted: _Wanted, vector: NDArray[np.float32], tail: Sequence[UnembeddedText]
    ) -> NearUnits:
        """Return the cosines of the fresh tail to a query, none if the embedder fails or is late."""
        if not tail:
            return NearUnits()
        model, query = wanted.model, wanted.question.text
        generation = model.generation
        known = self._tails.known(tail, generation)
        unknown = [fresh for fresh in tail if fresh.unit_id not in known]
        try:
            async with asyncio.timeout(self._settings.embed_deadline_ms / 1000):
                read = select_affordable(unknown, query, self._settings.fresh_tail_ms, model.estimate_ms)
                made = await model.embed([fresh.content for fresh in read]) if read else ()
        except (TimeoutError, EmbeddingError):
            read, made = (), ()
        embedded = {fresh.unit_id: one for fresh, one in zip(read, made, strict=True)}
        self._tails.keep(read, embedded, generation)
        known |= embedded
        return NearUnits({unit: _measure_cosine(one, vector) for unit, one in known.items()})


def _measure_cosine(one: NDArray[np.float32], vector: NDArray[np.float32]) -> float:
    """Return a cosine as the database measures it, whose vectors have half the precision."""
    return float(one.astype(np.float16).astype(np.float32) @ vector.astype(np.float16).astype(np.float32))


def _are_others(read: _Candidates, found: Sequence[StoredMemory]) -> bool:
    """Return whether all units that share words are missing from `found`: then they are no memories."""
    words = set(read.words.units)
    return bool(words) and all(one.unit.hex not in words for one in found)


async def _nearest_in_lists(
    scope: _Scope, bank: UUID, lists: int, about: Mapping[str, Any]
) -> Sequence[DriverRow] | None:
    """Return the nearest memories of a bank by its index, and its pinned ones; None if the index gives too few."""
    here = {**scope.arguments, **about, "banks": [bank], "looked_at": about["limit"] * LOOKED_AT}
    async with probe_lists(scope.connection, lists):
        near = await fetch_rows(scope.connection, select_nearest(bank, about["dimension"]), here)
    if not near or near[0].matched < about["limit"]:
        return None
    return [*near, *await fetch_rows(scope.connection, PINNED, here)] if about["pins_first"] else near


def _merge_memories(
    best: Sequence[StoredMemory], near: Sequence[DriverRow], limit: int, *, pins_first: bool
) -> list[StoredMemory]:
    """Return the best of both, at most `limit` and until they have MOST_BYTES."""
    memories = {one.unit: one for one in best}
    memories |= {row.unit_id: build_memory(row, max(-1.0, min(1.0, row.score))) for row in near}
    ranked = sorted(memories.values(), key=lambda one: _sort_key(one, pins_first))[:limit]
    before = accumulate((one.size for one in ranked), initial=0)
    return [one for one, size in zip(ranked, before, strict=False) if size < MOST_BYTES]


def _sort_key(one: StoredMemory, pins_first: bool) -> tuple[bool, float, float, int]:  # noqa: FBT001 - of one call
    """Return the sort key of a memory; it gives the order of the statements."""
    return (
        not (one.pin and pins_first),
        -round(one.score or 0.0, SCORE_DIGITS),
        -one.created_at.timestamp(),
        -one.memory_id.int,
    )


async def _find_containing(scope: _Scope, query: str, few: Sequence[UUID] | None) -> RankedUnits:
    """Return the memories whose text contains the query, or each of its words, for words that are not indexed.

    With `few`, only these are searched.
    """
    about = {**scope.arguments, "query": query, "words": split_words(query), "most": COMPARED}
    statement = CONTAINING if few is None else CONTAINING_AMONG_FEW
    rows = await fetch_rows(scope.connection, statement, {**about, "few": few})
    return RankedUnits(
        [row.unit_id.hex for row in rows], [1.0] * len(rows), [row.bank_id for row in rows], are_cut=False
    )
