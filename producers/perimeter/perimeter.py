"""The perimeter: a workspace's access to a memory plugin, with redaction, marks and audit."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import structlog

from producers.perimeter.audit import OrganisationAudit, OrganisationWrite
from producers.perimeter.callers import CallingWorkspace
from producers.perimeter.cleaning import (
    disarm_marks,
    mark_organisation,
    sanitise_content,
    sanitise_object,
    show_object,
)
from producers.perimeter.client import PluginClient, build_body
from producers.perimeter.embedder import LazyEmbedder, add_vector
from producers.perimeter.errors import EmbedderUnavailable, InvalidCall, NotConfigured, NotPermitted, PluginRefused
from producers.perimeter.namespaces import NamespaceAccess, derive_namespaces, readable_entries, writable_entry
from producers.perimeter.trees import WorkspaceTree
from producers.plugin.wire import (
    Capability,
    ForgetRequest,
    Found,
    Memory,
    MemoryKind,
    MemoryWrite,
    NamespaceKind,
    NamespaceUpsert,
    SearchRequest,
    Source,
    Written,
)
from producers.turns.items import measure_value
from store.off_loop import Steps, run_off_loop, run_steps_off_loop
from store.text.redaction import Redaction

#: The lifetime of a summary without an `expires_at`.
SUMMARY_TTL = timedelta(days=30)
#: The most namespaces that a process remembers as created.
MOST_KNOWN = 10_000
_NOT_FOUND = 404

log = structlog.get_logger("afterturn.perimeter")


@dataclass(frozen=True, slots=True)
class Commit:
    """A text to remember; `namespace` None is the workspace's own.

    `expires_at` None: a summary ends after 30 days, anything else never.
    """

    content: str
    namespace: str | None = None
    kind: MemoryKind = MemoryKind.FACT
    source: Source = Source.AGENT
    expires_at: datetime | None = None
    pin: bool = False
    #: An opaque object, returned with the memory.
    propagation: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """The result of a commit; `ignored`: fields left out because the plugin lacks their capability."""

    id: str
    namespace: str
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hits:
    """The results of a search; `ignored` as in Committed; `embedding`: found by words, for the embedder failed."""

    memories: Sequence[Memory] = ()
    ignored: tuple[str, ...] = ()

    @property
    def effort(self) -> int:
        """What it costs to write this as JSON, in characters of text."""
        return self._found().effort

    def as_json(self) -> dict[str, Any]:
        """Return the answer's JSON; `ignored` only where there is something."""
        answer: dict[str, Any] = {"memories": [memory.as_json() for memory in self._found().memories]}
        return answer | ({"ignored": list(self.ignored)} if self.ignored else {})

    async def encode(self) -> bytes:
        """Return the answer's JSON as bytes, written off the event loop where it is long."""
        found = self._found()
        told = await run_steps_off_loop(found.effort, found.encode())
        return b'%b,"ignored":%b}' % (told[:-1], json.dumps(self.ignored).encode()) if self.ignored else told

    def _found(self) -> Found:
        """Return the memories without the plugin's vectors, which agents do not read."""
        return Found(memories=tuple(memory.model_copy(update={"embedding": None}) for memory in self.memories))


class Perimeter:
    """The access of workspaces to one plugin. A caller's namespaces are read from the tree at every call.

    Every call raises TreeError, InvalidCall, NotPermitted, NotConfigured (`plugin` None), and the errors of the
    plugin's client. `redaction` says which secrets are replaced before a text is sent.

    With an `embedder`, texts and queries go with their vectors to a plugin that has the capability `embedding`; where
    there is none, commits raise EmbedderUnavailable, and so do searches of a plugin without `fts`.
    """

    def __init__(
        self,
        plugin: PluginClient | None,
        tree: WorkspaceTree,
        audit: OrganisationAudit,
        *,
        redaction: Redaction = Redaction.ALL,
        embedder: LazyEmbedder | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._plugin, self._tree, self._audit, self._redaction, self._clock = plugin, tree, audit, redaction, clock
        self._embedder = embedder
        self._made: dict[str, None] = {}

    async def readable(self, caller: CallingWorkspace) -> Sequence[NamespaceAccess]:
        """Return the namespaces that the caller can read."""
        self._wired()
        return derive_namespaces(await self._tree.path_to_root(caller.workspace))

    async def writable(self, caller: CallingWorkspace) -> Sequence[NamespaceAccess]:
        """Return the namespaces that the caller can write."""
        return tuple(entry for entry in await self.readable(caller) if entry.writable)

    async def capabilities(self) -> frozenset[str]:
        """Return the plugin's capabilities; without an embedder, `embedding` is none of use."""
        promised = await self._wired().capabilities()
        return promised if self._embedder else promised - {Capability.EMBEDDING}

    async def commit(self, caller: CallingWorkspace, commit: Commit) -> Committed:
        """Store a text, without secrets, and without imitations of the organisation's mark."""
        plugin = self._wired()
        write = build_body(
            MemoryWrite,
            content=await run_off_loop(len(commit.content), self.clean, commit.content, caller),
            kind=commit.kind,
            source=commit.source,
            expires_at=self._end(commit),
            pin=commit.pin,
            propagation=commit.propagation,
        )
        entry = writable_entry(await self.readable(caller), commit.namespace)
        promised = await self.capabilities()
        write, ignored = _drop_unsupported(write, promised)
        if write.propagation:
            size = measure_value(write.propagation)
            cleaned = await run_off_loop(size, sanitise_object, write.propagation, self._redaction, _own_keys(caller))
            write = write.model_copy(update={"propagation": cleaned})
        written = await self._write(plugin, entry, await add_vector(write, promised, self._embedder))
        if entry.kind is NamespaceKind.ORG:
            await self._note(
                OrganisationWrite.of(self._clock(), caller.workspace, entry.name, written.id, write.content)
            )
        return Committed(written.id, entry.name, ignored)

    async def search(
        self,
        caller: CallingWorkspace,
        query: str | None = None,
        namespaces: Sequence[str] = (),
        kinds: Sequence[MemoryKind] = (),
        limit: int = 0,
    ) -> Hits:
        """Return memories of the caller's readable namespaces; those of the organisation carry its mark."""
        plugin = self._wired()
        entries = readable_entries(await self.readable(caller), namespaces)
        if not entries:
            return Hits()
        names = {entry.name: entry.kind for entry in entries}
        request = build_body(SearchRequest, namespaces=tuple(names), query=query, kinds=tuple(kinds), limit=limit)
        request, ignored = await self._fit_query(caller, request)
        found = (await plugin.search(request)).memories
        now = self._clock()
        # Memories that the plugin returns beyond the request are dropped, so that a workspace reads no others.
        own = [
            memory
            for memory in found
            if memory.namespace in names and (memory.expires_at is None or memory.expires_at > now)
        ]
        shown = await run_steps_off_loop(sum(memory.effort for memory in own), _show_memories(own, names))
        return Hits(shown, ignored)

    async def forget(self, caller: CallingWorkspace, memory_id: UUID, namespace: str | None = None) -> None:
        """Forget a memory of a namespace that the caller can write."""
        plugin = self._wired()
        entry = writable_entry(await self.readable(caller), namespace)
        await plugin.forget(memory_id, build_body(ForgetRequest, requested_by_namespace=entry.name))

    async def delete_namespace(self, caller: CallingWorkspace, name: str) -> bool:
        """Delete the caller's own namespace with its memories; return whether the plugin had it.

        It is for workspaces that end, so the tree need not know the caller any more. Raises NotPermitted for any other.
        """
        plugin = self._wired()
        if name != f"workspace:{caller.workspace}":
            raise NotPermitted("a workspace deletes its own namespace alone: workspace:<its id>")
        self._made.pop(name, None)
        try:
            await plugin.delete_namespace(name)
        except PluginRefused as error:
            if error.status != _NOT_FOUND:
                raise
            return False
        return True

    def clean(self, content: str, caller: CallingWorkspace | None = None) -> str:
        """Return a text to store: with secrets (and the caller's own key) replaced, and marks disarmed."""
        return sanitise_content(content, self._redaction, _own_keys(caller))

    async def _fit_query(
        self, caller: CallingWorkspace, request: SearchRequest
    ) -> tuple[SearchRequest, tuple[str, ...]]:
        """Return the search with the query as text, vector or both, by the plugin's capabilities; and what is left out.

        Secrets in the query are replaced as in the texts that it is to find. A blank query is none.
        """
        if not (request.query and request.query.strip()):
            return request.model_copy(update={"query": None}), ()
        query = await run_off_loop(len(request.query), self.clean, request.query, caller)
        promised = await self.capabilities()
        fitted: dict[str, Any] = {"query": query if Capability.FTS in promised else None}
        if self._embedder and Capability.EMBEDDING in promised:
            try:
                fitted["embedding"] = await self._embedder.embed(query)
            except EmbedderUnavailable:
                if Capability.FTS not in promised:
                    raise
                return request.model_copy(update=fitted), ("embedding",)
        left_out = () if Capability.FTS in promised or "embedding" in fitted else ("query",)
        return request.model_copy(update=fitted), left_out

    def _wired(self) -> PluginClient:
        if self._plugin is None:
            raise NotConfigured
        return self._plugin

    def _end(self, commit: Commit) -> datetime | None:
        now = self._clock()
        if commit.expires_at is not None and commit.expires_at <= now:
            raise InvalidCall("expires_at: must be in the future")
        return commit.expires_at or (now + SUMMARY_TTL if commit.kind is MemoryKind.SUMMARY else None)

    async def _write(self, plugin: PluginClient, entry: NamespaceAccess, write: MemoryWrite) -> Written:
        """Write to a namespace; create it where this process has not done so yet, or the plugin does not have it.

        It is not created before every write: some plugins lose a namespace's metadata and end when it is created again.
        """
        if entry.name not in self._made:
            await self._make(plugin, entry)
        try:
            return await plugin.write(entry.name, write)
        except PluginRefused as error:
            if error.status != _NOT_FOUND:
                raise
        await self._make(plugin, entry)
        return await plugin.write(entry.name, write)

    async def _make(self, plugin: PluginClient, entry: NamespaceAccess) -> None:
        await plugin.upsert_namespace(entry.name, NamespaceUpsert(kind=entry.kind))
        if len(self._made) >= MOST_KNOWN:
            self._made.clear()
        self._made[entry.name] = None

    async def _note(self, write: OrganisationWrite) -> None:
        """Audit a write; a failure of the audit does not undo it."""
        try:
            await self._audit.record(write)
        except Exception as error:  # noqa: BLE001 - an audit of any kind fails no write
            # Without the traceback: an audit's error may repeat what it was given.
            log.error("organisation_write_not_audited", error=type(error).__name__, memory_id=write.memory_id)  # noqa: TRY400


def _own_keys(caller: CallingWorkspace | None) -> tuple[str, ...]:
    return (caller.key,) if caller and caller.key else ()


def _drop_unsupported(write: MemoryWrite, promised: frozenset[str]) -> tuple[MemoryWrite, tuple[str, ...]]:
    """Return the write without fields whose capability the plugin lacks, and the names of these fields."""
    ignored = {
        field: default
        for field, default, capability in (
            ("expires_at", None, Capability.TTL),
            ("pin", False, Capability.PIN),
            ("propagation", None, Capability.PROPAGATION),
        )
        if capability not in promised and getattr(write, field) != default
    }
    return (write.model_copy(update=ignored), tuple(ignored)) if ignored else (write, ())


def _show_memories(memories: Sequence[Memory], kinds: Mapping[str, NamespaceKind]) -> Steps[Sequence[Memory]]:
    """Return memories for a workspace to read; `kinds`: of their namespaces."""
    shown = list[Memory]()
    for memory in memories:
        shown.append(_show_memory(memory, kinds[memory.namespace]))
        yield
    return shown


def _show_memory(memory: Memory, kind: NamespaceKind) -> Memory:
    """Return a memory for a workspace to read: only memories of the organisation carry its mark."""
    content = memory.content
    shown = (
        mark_organisation(memory.id, memory.namespace, content) if kind is NamespaceKind.ORG else disarm_marks(content)
    )
    return memory.model_copy(update={"content": shown, "propagation": show_object(memory.propagation)})
