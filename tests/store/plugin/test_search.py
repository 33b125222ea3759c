"""A search of several namespaces returns the best of all, on however few connections it is run."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import numpy as np
import pytest
from numpy.typing import NDArray

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
        assert {memory.content for memory in found} == {TEXTS[0], TEXTS[2]}
    assert [one.content for one in await search.find(host, SearchQuery(NAMES, [], 1), "tea with lemon")] == [TEXTS[1]]
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
