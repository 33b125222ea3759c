"""Lists all memories of a namespace; a plugin answers a search with a hundred at most."""

from dataclasses import dataclass

from producers.perimeter.client import PluginClient, build_body
from producers.perimeter.errors import UnreadableAnswer
from producers.plugin.wire import LARGEST_LIMIT, Capability, Found, Memory, MemoryKind, Namespace, SearchRequest


@dataclass(frozen=True, slots=True)
class MemoryListing:
    """Memories by id; `complete`: these are all. `namespace`: its record in an export, None where there is none."""

    memories: dict[str, Memory]
    complete: bool
    namespace: Namespace | None = None


async def list_memories(plugin: PluginClient, namespace: str, *, export: bool = False) -> MemoryListing:
    """Return the memories of a namespace: all of them where the plugin pages (`cursor`).

    `export`: with callers' vectors, and with its end and metadata, where the plugin has the capability `export`. A
    plugin without pages returns at most a hundred of each kind. Raises the client's errors.
    """
    promised = await plugin.capabilities()
    if Capability.CURSOR in promised:
        return await _page_through(plugin, namespace, export=export and Capability.EXPORT in promised)
    found = await _search_namespace(plugin, namespace)
    if len(found.memories) < LARGEST_LIMIT:
        return MemoryListing(_by_id(found), complete=True)
    memories, complete = _by_id(found), True
    for kind in MemoryKind:
        found = await _search_namespace(plugin, namespace, kinds=(kind,))
        memories |= _by_id(found)
        complete = complete and len(found.memories) < LARGEST_LIMIT
    return MemoryListing(memories, complete)


async def find_memory(plugin: PluginClient, namespace: str, memory_id: str, content: str) -> Memory | None:
    """Return the memory of this id by a search for its own text; None where that does not find it."""
    if Capability.FTS not in await plugin.capabilities():
        return None
    return _by_id(await _search_namespace(plugin, namespace, query=content[:LONGEST_QUERY])).get(memory_id)


#: Memories of a page of an export: with vectors of 4,096 numbers they are no more than the client reads.
EXPORTED = 32
#: Most characters of a text that is searched for.
LONGEST_QUERY = 1000


async def _page_through(plugin: PluginClient, namespace: str, *, export: bool) -> MemoryListing:
    memories, cursor, passed = dict[str, Memory](), None, set[str]()
    more: dict[str, object] = {"export": True, "limit": EXPORTED} if export else {}
    while True:
        found = await _search_namespace(plugin, namespace, cursor=cursor, **more)
        memories |= _by_id(found)
        cursor = found.next_cursor
        if cursor is None:
            shown = {one.name: one for one in found.namespaces}
            return MemoryListing(memories, complete=True, namespace=shown.get(namespace))
        if cursor in passed:
            raise UnreadableAnswer("the plugin's pages lead back to one that was read")
        passed.add(cursor)


async def _search_namespace(plugin: PluginClient, namespace: str, **named: object) -> Found:
    asked = {"limit": LARGEST_LIMIT, **named}
    found = await plugin.search(build_body(SearchRequest, namespaces=(namespace,), **asked))
    if any(memory.namespace != namespace for memory in found.memories):
        raise UnreadableAnswer("the plugin answered with memories of another namespace")
    return found


def _by_id(found: Found) -> dict[str, Memory]:
    return {memory.id.lower(): memory for memory in found.memories}
