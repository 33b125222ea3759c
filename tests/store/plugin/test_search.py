"""A search of several namespaces returns the best of all, on however few connections it is run."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import numpy as np
import pytest
from numpy.typing import NDArray
from sqlalchemy import text

from store.database import Database
from store.database_outage import is_outage
from store.plugin.memories import PluginMemories, PluginMemory
from store.plugin.namespaces import NamespaceChange, Namespaces
from store.plugin.nearness import BankSize, NearSearch
from store.plugin.search import PluginSearch, SearchQuery
from store.recall.settings import RecallSettings
from tests.producers.words import WordEmbedder
from tests.servers import TestPostgres
from tests.store.conftest import NOON, new_host, settings_of

NAMES = ("workspace:first", "team:second", "org:third")
STORE = text("""
    insert into afterturn.unit_vector_t (host_id, bank_id, unit_id, chunk, generation, embedding)
    select u.host_id, u.bank_id, u.unit_id, 0, cast(:generation as smallint), cast(:embedding as public.halfvec)
      from (select * from afterturn.agent_memory_unit_t where host_id = :host order by unit_id limit :most) u
    on conflict do nothing""")
TEXTS = ("the tram was late", "tea with lemon", "a tram in the rain")


async def test_namespaces_are_searched_at_once_whatever_the_number_of_connections(fresh_database: TestPostgres) -> None:
    one = Database(settings_of(fresh_database).model_copy(update={"pool_size": 1}))
    host, memories = await new_host(one), PluginMemories(one, lambda: NOON)
    for name, content in zip(NAMES, TEXTS, strict=True):
        await Namespaces(one, lambda: NOON).upsert(host, name, "custom", NamespaceChange(frozenset()))
        await memories.write(host, name, PluginMemory(None, content, "fact", "agent"))
    search = PluginSearch(one, WordEmbedder(), RecallSettings(), lambda: NOON, 0.5)
    asked = SearchQuery(NAMES, [], 10)
    for found in await asyncio.gather(*(search.find(host, asked, "tram") for _ in range(4))):
        assert {memory.content for memory in found.memories} == {TEXTS[0], TEXTS[2]}
    assert [one.content for one in (await search.find(host, SearchQuery(NAMES, [], 1), "tea with lemon")).memories] == [
        TEXTS[1]
    ]
    await one.close()


class HeldEmbedder(WordEmbedder):
    """Answers the first call; a later one, of texts without a vector, ends only when it is cancelled."""

    def __init__(self) -> None:
        self.calls, self.begun, self.ended = 0, asyncio.Event(), False

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls += 1
        if self.calls > 1:
            self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.ended = True
        return await super().embed(texts)


async def test_a_search_that_fails_leaves_no_part_of_it_running(
    fresh_database: TestPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, embedder = Database(settings_of(fresh_database)), HeldEmbedder()
    host, memories = await new_host(database), PluginMemories(database, lambda: NOON)
    await Namespaces(database, lambda: NOON).upsert(host, NAMES[0], "custom", NamespaceChange(frozenset()))
    await memories.write(host, NAMES[0], PluginMemory(None, TEXTS[0], "fact", "agent"))

    async def fail(*_arguments: object) -> None:
        await embedder.begun.wait()
        raise ConnectionRefusedError("the database is away")

    monkeypatch.setattr(NearSearch, "run_in_lanes", fail)
    search = PluginSearch(database, embedder, RecallSettings(embed_deadline_ms=60_000), lambda: NOON, 0.5)
    with pytest.raises(ConnectionRefusedError) as caught:
        await search.find(host, SearchQuery(NAMES[:1], [], 10), "tram")
    assert is_outage(caught.value)
    assert embedder.ended
    await database.close()


async def test_a_bank_that_cannot_be_compared_ends_the_comparison_of_the_others(
    fresh_database: TestPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, begun, ended = Database(settings_of(fresh_database)), asyncio.Event(), list[UUID]()
    failing, waiting = UUID(int=1), UUID(int=2)

    async def run(_self: NearSearch, _connection: object, banks: dict[UUID, BankSize]) -> None:
        [bank] = banks
        if bank == failing:
            await begun.wait()
            raise ConnectionRefusedError("the database is away")
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(bank)

    monkeypatch.setattr(NearSearch, "run", run)
    with pytest.raises(ConnectionRefusedError):
        search = NearSearch(10, of_memories=False, arguments={"host": await new_host(database)})
        await search.run_in_lanes(database, dict.fromkeys((failing, waiting), BankSize(1, None)))
    assert ended == [waiting]
    await database.close()


class SlowEmbedder(WordEmbedder):
    """Says that each text takes it 3 ms."""

    def estimate_ms(self, texts: Sequence[str]) -> float:
        return 3.0 * len(texts)


async def test_a_burst_of_texts_is_compared_and_a_search_says_how_many_had_no_vector_in_time(
    fresh_database: TestPostgres,
) -> None:
    database = Database(settings_of(fresh_database))
    host, memories = await new_host(database), PluginMemories(database, lambda: NOON)
    await Namespaces(database, lambda: NOON).upsert(host, NAMES[0], "custom", NamespaceChange(frozenset()))
    for nth in range(40):
        await memories.write(host, NAMES[0], PluginMemory(None, f"tram number {nth}", "fact", "agent"))
    search, asked = (
        PluginSearch(database, SlowEmbedder(), RecallSettings(), lambda: NOON, 0.5),
        SearchQuery(NAMES[:1], [], 10),
    )
    # What one search has embedded, the next does not embed again.
    assert [(await search.find(host, asked, "tram")).unembedded for _ in range(3)] == [8, 0, 0]
    set_limit = PluginSearch(database, SlowEmbedder(), RecallSettings(fresh_tail_ms=20), lambda: NOON, 0.5)
    assert (await set_limit.find(host, asked, "tram")).unembedded == 35
    await database.close()


async def test_equal_texts_keep_their_order_while_some_have_a_vector_and_others_wait(
    fresh_database: TestPostgres,
) -> None:
    database, embedder = Database(settings_of(fresh_database)), WordEmbedder()
    host, memories = await new_host(database), PluginMemories(database, lambda: NOON)
    await Namespaces(database, lambda: NOON).upsert(host, NAMES[0], "custom", NamespaceChange(frozenset()))
    for nth in range(12):
        await memories.write(host, NAMES[0], PluginMemory(UUID(int=nth + 1), "the tram was late", "fact", "agent"))
    orders = set()
    for stored in range(0, 13, 3):
        await _store_vectors(database, host, embedder, stored)
        search = PluginSearch(database, embedder, RecallSettings(), lambda: NOON, 0.5)
        found = await search.find(host, SearchQuery(NAMES[:1], [], 12), "late tram")
        orders.add(tuple(one.memory_id for one in found.memories))
    assert len(orders) == 1
    assert len(orders.pop()) == 12
    await database.close()


async def _store_vectors(database: Database, host: UUID, embedder: WordEmbedder, most: int) -> None:
    """Have stored vectors of `most` of the texts, as the embedding stage writes them."""
    [vector] = await embedder.embed(["the tram was late"])
    async with database.tenant(host) as connection:
        await connection.execute(
            STORE, {"host": host, "generation": embedder.generation, "embedding": vector, "most": most}
        )
