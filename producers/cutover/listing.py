"""All memories of a namespace: a plugin answers a search with a hundred at most."""

from dataclasses import dataclass

from producers.perimeter.client import PluginClient, make
from producers.perimeter.errors import UnreadableAnswer
from producers.plugin.wire import LARGEST_LIMIT, Capability, Found, Memory, MemoryKind, SearchRequest


@dataclass(frozen=True, slots=True)
class Listing:
    """Memories by id; `complete`: these are all."""

    memories: dict[str, Memory]
    complete: bool


async def list_memories(plugin: PluginClient, namespace: str) -> Listing:
    """Return the memories of a namespace: all of them where the plugin pages (`cursor`).

    Of a plugin that does not, a hundred of each kind are the most that can be had. Raises what the client raises.
    """
    if Capability.CURSOR in await plugin.capabilities():
        return Listing(await _page_through(plugin, namespace), complete=True)
    found = await _search(plugin, namespace)
    if len(found.memories) < LARGEST_LIMIT:
        return Listing(_by_id(found), complete=True)
    memories, complete = _by_id(found), True
    for kind in MemoryKind:
        found = await _search(plugin, namespace, kinds=(kind,))
        memories |= _by_id(found)
        complete = complete and len(found.memories) < LARGEST_LIMIT
    return Listing(memories, complete)


async def find_memory(plugin: PluginClient, namespace: str, memory_id: str, content: str) -> Memory | None:
    """Return the memory of this id by asking for its own words; None where that does not find it."""
    if Capability.FTS not in await plugin.capabilities():
        return None
    return _by_id(await _search(plugin, namespace, query=content[:LONGEST_QUERY])).get(memory_id)


#: Characters of a text that are asked for.
LONGEST_QUERY = 1000


async def _page_through(plugin: PluginClient, namespace: str) -> dict[str, Memory]:
    memories, cursor, passed = dict[str, Memory](), None, set[str]()
    while True:
        found = await _search(plugin, namespace, cursor=cursor)
        memories |= _by_id(found)
        cursor = found.next_cursor
        if cursor is None:
            return memories
        if cursor in passed:
            raise UnreadableAnswer("the plugin's pages lead back to one that was read")
        passed.add(cursor)


async def _search(plugin: PluginClient, namespace: str, **named: object) -> Found:
    found = await plugin.search(make(SearchRequest, namespaces=(namespace,), limit=LARGEST_LIMIT, **named))
    if any(memory.namespace != namespace for memory in found.memories):
        raise UnreadableAnswer("the plugin answered with memories of another namespace")
    return found


def _by_id(found: Found) -> dict[str, Memory]:
    return {memory.id.lower(): memory for memory in found.memories}
