"""A search of several namespaces returns the best of all, on however few connections it is run."""

import asyncio

from store.database import Database
from store.plugin.memories import PluginMemories, PluginMemory
from store.plugin.namespaces import NamespaceChange, Namespaces
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
