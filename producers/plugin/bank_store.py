"""The plugin's store over our own: namespaces are banks, memories are units of origin `memory` in them."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Protocol, TypeVar
from uuid import UUID

import structlog
from afterturn_client.moments import parse_zoned

from producers.errors import FieldProblem, Invalid, PermissionDenied
from producers.plugin.wire import (
    DEFAULT_LIMIT,
    VERSION,
    Capability,
    Found,
    Health,
    Memory,
    MemoryWrite,
    Namespace,
    NamespaceKind,
    SearchRequest,
    Written,
)
from producers.service.authorisation import READ_ONLY
from producers.service.paging import ListOrder
from producers.settings import PluginSettings, SearchMode
from store import identity
from store.erasure import Erasures
from store.errors import NotFound
from store.ledger.stages import READY_AT_ONCE, Stage
from store.off_loop import Steps, run_steps_off_loop
from store.plugin.memories import PluginMemories, PluginMemory, StoredMemory
from store.plugin.namespaces import NamespaceChange, NamespaceRow, Namespaces
from store.plugin.search import FoundMemories, ListingCursor, PluginSearch, SearchQuery
from store.plugin.vectors import normalise_vector
from store.tenancy.keys import Grant

CAPABILITIES = (
    Capability.FTS,
    Capability.EMBEDDING,
    Capability.TTL,
    Capability.PIN,
    Capability.PROPAGATION,
    Capability.CREATED_AT,
    Capability.CURSOR,
    Capability.EXPORT,
)

#: Pinned first, then the newest.
LISTING: ListOrder[StoredMemory] = ListOrder(
    "plugin_memories",
    lambda memory: (int(memory.pin), memory.created_at, memory.memory_id, memory.bank),
    (lambda pinned: bool(int(pinned)), parse_zoned, UUID, UUID),
)

log = structlog.get_logger("afterturn.plugin")

Row = TypeVar("Row")
Built = TypeVar("Built")


class EraseQueue:
    """A queue that runs erasures of forgotten memories in the background; maintenance runs those that it leaves."""

    def __init__(self, erasures: Erasures, after_s: float) -> None:
        self._erasures, self._after = erasures, timedelta(seconds=after_s)
        self._waiting: asyncio.Queue[tuple[UUID, UUID]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def add(self, host: UUID, erasures: Sequence[UUID]) -> None:
        """Queue these erasures, or put them off by `after_s` seconds for maintenance."""
        for erasure in erasures:
            if self._after:
                await self._erasures.put_off(host, erasure, self._after)
            else:
                self._waiting.put_nowait((host, erasure))
        if not self._after and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._work(), name="erase what was forgotten")

    async def close(self) -> None:
        """Stop; maintenance runs the remaining erasures."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _work(self) -> None:
        with suppress(asyncio.QueueEmpty):
            while True:
                host, erasure = self._waiting.get_nowait()
                try:
                    await self._erasures.run(host, erasure)
                except Exception as error:  # noqa: BLE001 - it stands in the database, and maintenance goes on with it
                    log.warning("plugin_erasure_left", error=type(error).__name__, erasure=str(erasure))


class Notify(Protocol):
    """The protocol of a call that notifies workers of stages and returns at once."""

    def __call__(self, *stages: Stage) -> None:
        """Notify the workers of these stages."""
        ...


@dataclass(frozen=True, slots=True)
class PluginParts:
    """The dependencies of every tenant's store."""

    namespaces: Namespaces
    memories: PluginMemories
    search: PluginSearch
    erasing: EraseQueue
    notify: Notify
    settings: PluginSettings


@dataclass(frozen=True, slots=True)
class BankPluginStore:
    """The namespaces and memories of one tenant; `grant`: that of the caller's key, None for a keyless listener."""

    host: UUID
    parts: PluginParts
    grant: Grant | None = None

    @property
    def tenant(self) -> UUID:
        """The tenant's id."""
        return self.host

    @property
    def capabilities(self) -> frozenset[str]:
        """All capabilities of the contract, and our extensions."""
        return frozenset(CAPABILITIES)

    async def health(self) -> Health:
        """Return the health, once the database has answered."""
        await self.parts.namespaces.of(self.host, [])
        return Health(status="ok", version=VERSION, capabilities=CAPABILITIES)

    async def upsert_namespace(self, name: str, kind: NamespaceKind, changes: Mapping[str, Any]) -> Namespace:
        """Create a namespace and its bank, or change it; first completes an interrupted deletion."""
        self._require(name, writes=True)
        if await self.parts.namespaces.is_ending(self.host, name):
            await self._end(name)
        return _build_namespace(await self.parts.namespaces.upsert(self.host, name, kind.value, _build_change(changes)))

    async def patch_namespace(self, name: str, changes: Mapping[str, Any]) -> Namespace:
        """Change what `changes` names; None clears. Raises NotFound."""
        self._require(name, writes=True)
        return _build_namespace(await self.parts.namespaces.change(self.host, name, _build_change(changes)))

    async def delete_namespace(self, name: str) -> Sequence[UUID]:
        """Delete a namespace with its memories; returns the erasures. Raises NotFound."""
        self._require(name, writes=True)
        await self.parts.namespaces.begin_end(self.host, name)
        return await self._end(name)

    async def write(self, namespace: str, memory: MemoryWrite) -> Written:
        """Write a memory, and notify the stages. Raises NotFound, QuotaExceeded, RateLimited."""
        self._require(namespace, writes=True)
        memory_id = await self.parts.memories.write(self.host, namespace, _as_stored(memory))
        self.parts.notify(*READY_AT_ONCE)
        return Written(id=str(memory_id), namespace=namespace)

    async def search(self, request: SearchRequest) -> Found:
        """Return memories of the named namespaces. Raises Invalid for a cursor or a vector that does not fit them."""
        for name in request.namespaces:
            self._require(name, writes=False)
        asked = SearchQuery(
            tuple(dict.fromkeys(request.namespaces)),
            [kind.value for kind in request.kinds],
            request.limit or DEFAULT_LIMIT,
        )
        names = {identity.bank_id(self.host, name): name for name in asked.names}
        query = (request.query or "").strip()
        if not request.embedding and not query:
            return await self._list(asked, request.cursor, names, export=request.export)
        if request.export:
            raise Invalid(FieldProblem("export", "only a listing is exported: leave out query and embedding"))
        if request.cursor is not None:
            raise Invalid(FieldProblem("cursor", "only a listing has pages: leave out query and embedding"))
        found = await self._find(asked, query, request.embedding)
        return Found(memories=await _read_memories(found.memories, names), unembedded=found.unembedded)

    async def forget(self, namespace: str, memory_id: UUID) -> Sequence[UUID]:
        """Forget a memory; return the ids of its erasure. Raises NotFound."""
        self._require(namespace, writes=True)
        erasure = await self.parts.memories.forget(self.host, namespace, memory_id)
        await self.parts.erasing.add(self.host, [erasure])
        return [erasure]

    async def _end(self, name: str) -> Sequence[UUID]:
        try:
            erasures = await self.parts.memories.forget_all(self.host, name)
        except NotFound:
            erasures = []
        await self.parts.namespaces.remove(self.host, name)
        await self.parts.erasing.add(self.host, erasures)
        return erasures

    async def _list(self, asked: SearchQuery, cursor: str | None, names: Mapping[UUID, str], *, export: bool) -> Found:
        place = LISTING.open(self.host, "", cursor)
        page = await self.parts.search.page(self.host, asked, ListingCursor(*place) if place else None)
        vectors, namespaces = dict[UUID, Sequence[float]](), list[NamespaceRow]()
        if export:
            vectors = await self.parts.search.vectors(self.host, asked, page.rows)
            namespaces = await self.parts.namespaces.of(self.host, asked.names)
        return Found(
            memories=await _read_memories(page.rows, names, vectors),
            next_cursor=LISTING.end(self.host, "", page).cursor,
            namespaces=await _read_namespaces(namespaces),
        )

    async def _find(self, asked: SearchQuery, query: str, embedding: Sequence[float] | None) -> FoundMemories:
        """Return the memories found by the caller's vector where its dimension is stored, else by the text."""
        search, reference = self.parts.search, self.parts.settings.search_mode is SearchMode.REFERENCE
        if embedding:
            nearest = await search.nearest(self.host, asked, normalise_vector(embedding), pins_first=not reference)
            if nearest or len(embedding) in (known := await search.dimensions(self.host, asked)):
                return FoundMemories(nearest)
            if not query and known:
                told = ", ".join(map(str, known))
                raise Invalid(
                    FieldProblem("embedding", f"has {len(embedding)} numbers; kept there are vectors of {told}")
                )
        if not query:
            return FoundMemories(())
        if len(query.encode()) == 1:
            return FoundMemories((await search.page(self.host, asked, letter=query)).rows)
        return await search.find(self.host, asked, query, by_words=reference, pins_first=not reference)

    def _require(self, namespace: str, *, writes: bool) -> None:
        """Check the key's rights to these namespaces. Raises PermissionDenied."""
        grant = self.grant
        if grant is None:
            return
        if grant.user is not None or grant.agent is not None or grant.gateway_user is not None:
            raise PermissionDenied("the memory plugin takes keys of a whole tenant, not of a user, agent or gateway")
        if not grant.allows(namespace):
            raise PermissionDenied("this key does not reach this namespace")
        if writes and not grant.write:
            raise PermissionDenied(READ_ONLY)


def _build_change(changes: Mapping[str, Any]) -> NamespaceChange:
    metadata = changes.get("metadata")
    text = None if metadata is None else json.dumps(metadata, ensure_ascii=False)
    return NamespaceChange(frozenset(changes), changes.get("expires_at"), text)


def _build_namespace(row: NamespaceRow) -> Namespace:
    return Namespace(
        name=row.name,
        kind=row.kind,
        created_at=row.created_at,
        expires_at=row.expires_at,
        metadata=None if row.metadata is None else json.loads(row.metadata),
    )


async def _read_namespaces(rows: Sequence[NamespaceRow]) -> tuple[Namespace, ...]:
    """Return what the plugin answers for these namespaces, made off the event loop where they are large."""
    size = sum(len(row.name) + len(row.metadata or "") for row in rows)
    return await run_steps_off_loop(size, _build_each(_build_namespace, rows))


def _build_each(build: Callable[[Row], Built], rows: Iterable[Row]) -> Steps[tuple[Built, ...]]:
    built = list[Built]()
    for row in rows:
        built.append(build(row))
        yield
    return tuple(built)


def _as_stored(memory: MemoryWrite) -> PluginMemory:
    propagation = memory.propagation
    return PluginMemory(
        memory_id=memory.id,
        content=memory.content,
        kind=memory.kind.value,
        source=memory.source.value,
        expires_at=memory.expires_at,
        propagation=None if propagation is None else json.dumps(propagation, ensure_ascii=False),
        pin=memory.pin,
        vector=normalise_vector(memory.embedding) if memory.embedding else None,
        created_at=memory.created_at,
    )


async def _read_memories(
    found: Sequence[StoredMemory],
    names: Mapping[UUID, str],
    vectors: Mapping[UUID, Sequence[float]] = MappingProxyType({}),
) -> tuple[Memory, ...]:
    """Return what the plugin answers for these memories, made off the event loop where they are large."""
    size = sum(one.size for one in found) + sum(map(len, vectors.values()))
    steps = _build_each(lambda one: _as_memory(one, names, vectors.get(one.unit)), found)
    return await run_steps_off_loop(size, steps)


def _as_memory(found: StoredMemory, names: Mapping[UUID, str], vector: Sequence[float] | None = None) -> Memory:
    return Memory(
        id=str(found.memory_id),
        namespace=names[found.bank],
        content=found.content,
        kind=found.kind,
        source=found.source,
        created_at=found.created_at,
        expires_at=found.expires_at,
        propagation=None if found.propagation is None else json.loads(found.propagation),
        pin=found.pin or None,
        score=found.score,
        embedding=None if vector is None else tuple(vector),
    )
