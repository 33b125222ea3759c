"""Copies the rows of `agent_memories` into a memory plugin, each under its own id, so that it may be run again."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from embeddings.retry import Backoff, Clock, Retry, Sleep
from producers.cutover.checkpoint import Checkpoint
from producers.cutover.errors import GaveUp
from producers.cutover.legacy import SCOPES, LegacyMemories, LegacyMemory
from producers.perimeter.cleaning import sanitise_content
from producers.perimeter.client import PluginClient, build_body
from producers.perimeter.embedder import LazyEmbedder, add_vector
from producers.perimeter.errors import (
    InvalidCall,
    PerimeterError,
    PluginOverloaded,
    PluginRefused,
    PluginUnavailable,
    TreeError,
    TreeUnreadable,
)
from producers.perimeter.namespaces import NamespaceAccess, derive_namespaces
from producers.perimeter.trees import WorkspaceTree
from producers.plugin.wire import Capability, MemoryKind, MemoryWrite, NamespaceUpsert, Source
from store.off_loop import run_off_loop
from store.text.redaction import Redaction

#: The longest wait for an unavailable plugin, in seconds.
PATIENCE_S = 600.0
#: Pauses between two checks of an unavailable plugin.
LOOK_AGAIN = Backoff(0.5, factor=2.0, longest_s=10.0)
#: A row that fails this many times while the plugin's health is ok counts as an error.
ATTEMPTS = 3
_NOT_FOUND = 404

Say = Callable[[str], None]
Result = TypeVar("Result")


@dataclass
class BackfillCounts:
    """The counts of a backfill; `left` are rows beyond the limit, which were not looked at."""

    scanned: int = 0
    copied: int = 0
    skipped: int = 0
    errors: int = 0
    left: int = 0

    def __str__(self) -> str:
        counts = f"scanned={self.scanned} copied={self.copied} skipped={self.skipped} errors={self.errors}"
        return f"Backfill complete: {counts}"

    @property
    def clean(self) -> bool:
        """Whether every row was copied."""
        return not (self.skipped or self.errors or self.left)


class Unmappable(Exception):
    """A row has no namespace; the text says why."""


class NamespaceMap:
    """A cached map from rows to namespaces, by the tree at the first row of each workspace."""

    def __init__(self, tree: WorkspaceTree) -> None:
        self._tree = tree
        self._known: dict[str, tuple[NamespaceAccess, ...] | Unmappable] = {}

    async def namespace_of(self, workspace: str, scope: str) -> NamespaceAccess:
        """Return the namespace of a row. Raises Unmappable, TreeUnreadable.

        A GLOBAL row belongs to the organisation, whichever workspace wrote it: all of them could read it before.
        """
        if scope not in SCOPES:
            raise Unmappable("unknown scope")
        return next(entry for entry in await self.entries(workspace) if entry.kind is SCOPES[scope])

    async def entries(self, workspace: str) -> tuple[NamespaceAccess, ...]:
        """Return the namespaces of a workspace. Raises Unmappable, TreeUnreadable."""
        if workspace not in self._known:
            self._known[workspace] = await self._derive(workspace)
        known = self._known[workspace]
        if isinstance(known, Unmappable):
            raise known
        return known

    async def _derive(self, workspace: str) -> tuple[NamespaceAccess, ...] | Unmappable:
        try:
            return derive_namespaces(await self._tree.path_to_root(workspace))
        except TreeUnreadable:
            raise
        except (TreeError, InvalidCall) as error:
            return Unmappable(str(error))


@dataclass
class OutageRetry:
    """Repeats calls while a plugin is away, at most `seconds` for one outage."""

    plugin: PluginClient
    say: Say
    seconds: float = PATIENCE_S
    sleep: Sleep = asyncio.sleep
    clock: Clock = time.monotonic

    async def call(self, call: Callable[[], Awaitable[Result]]) -> Result:
        """Return the result of the call, repeated after every outage.

        Raises GaveUp; PluginUnavailable where this call fails repeatedly while the plugin's health is ok.
        """

        async def attempt() -> Result:
            try:
                return await self._call_when_allowed(call)
            except PluginUnavailable:
                await self._wait_until_well()
                raise

        return await self._retry(ATTEMPTS).call(attempt, _when_unavailable)

    async def _call_when_allowed(self, call: Callable[[], Awaitable[Result]]) -> Result:
        """Return the result of the call, repeated after the Retry-After of each 429. Raises GaveUp."""
        try:
            return await self._retry().call(call, _as_asked, deadline=self.clock() + self.seconds)
        except PluginOverloaded:
            raise GaveUp(f"the plugin was overloaded for {self.seconds:.0f} s") from None

    async def _wait_until_well(self) -> None:
        """Wait until the plugin's health is ok. Raises GaveUp."""
        said = False

        def again(error: Exception) -> float | None:
            nonlocal said
            if not isinstance(error, PerimeterError):
                return None
            if not said:
                self.say(f"waiting for the plugin: {error}")
            said = True
            return 0.0

        try:
            await self._retry().call(self.plugin.health, again, deadline=self.clock() + self.seconds)
        except PerimeterError as problem:
            raise GaveUp(f"the plugin was away for {self.seconds:.0f} s: {problem}") from None

    def _retry(self, attempts: int | None = None) -> Retry:
        return Retry(LOOK_AGAIN, attempts, self.sleep, self.clock)


def _when_unavailable(error: Exception) -> float | None:
    return 0.0 if isinstance(error, PluginUnavailable) else None


def _as_asked(error: Exception) -> float | None:
    return error.retry_after_s if isinstance(error, PluginOverloaded) else None


@dataclass
class Backfill:
    """A backfill run; without a `plugin` a dry run, which sends no requests.

    `say` is called with a line for every row that a person should see; `advance` with the rows done and in all. The
    `embedder` makes vectors for a plugin with the capability `embedding`; a row without one counts as an error.
    """

    source: LegacyMemories
    tree: WorkspaceTree
    plugin: PluginClient | None
    checkpoint: Checkpoint | None = None
    workspace: str | None = None
    limit: int = 1_000_000
    redaction: Redaction = Redaction.ALL
    patience_s: float = PATIENCE_S
    say: Say = print
    advance: Callable[[int, int], None] = lambda _done, _all: None
    embedder: LazyEmbedder | None = None
    sleep: Sleep = asyncio.sleep
    clock: Clock = time.monotonic
    tally: BackfillCounts = field(default_factory=BackfillCounts)

    async def run(self) -> BackfillCounts:
        """Copy the rows, the oldest first. Raises LegacyUnreadable, TreeUnreadable, GaveUp, UnusableFile."""
        checkpoint = self.checkpoint
        ids = await self.source.ids(self.workspace, checkpoint.after if checkpoint else None)
        self.tally.left = max(0, len(ids) - self.limit)
        ids = ids[: self.limit]
        self._map, self._made = NamespaceMap(self.tree), set[str]()
        try:
            async for row in self.source.rows(ids):
                self.tally.scanned += 1
                done = await self._copy(row)
                if checkpoint:
                    checkpoint.passed(row.place) if done else checkpoint.failed()
                self.advance(self.tally.scanned, len(ids))
        except BaseException:
            if checkpoint:
                checkpoint.save()
            raise
        if checkpoint:
            checkpoint.save() if self.tally.left else checkpoint.end()
        return self.tally

    async def _copy(self, row: LegacyMemory) -> bool:
        """Copy a row; return whether it needs no second try."""
        try:
            entry = await self._map.namespace_of(row.workspace, row.scope)
            content = await run_off_loop(len(row.content), sanitise_content, row.content, self.redaction)
            write = build_body(MemoryWrite, id=row.id, content=content, kind=MemoryKind.FACT, source=Source.AGENT)
        except (Unmappable, InvalidCall) as problem:
            self.tally.skipped += 1
            self.say(f"[skip] id={row.id} scope={row.scope!r} {problem}")
            return True
        if self.plugin is None:
            self.tally.copied += 1
            self.say(f"[dry] id={row.id} scope={row.scope} → ns={entry.name}")
            return True
        return await self._write(self.plugin, row, entry, write)

    async def _write(self, plugin: PluginClient, row: LegacyMemory, entry: NamespaceAccess, write: MemoryWrite) -> bool:
        retry = OutageRetry(plugin, self.say, self.patience_s, self.sleep, self.clock)
        step = "err-ns"
        try:
            promised = await retry.call(plugin.capabilities)
            if Capability.CREATED_AT in promised:
                write = write.model_copy(update={"created_at": row.created_at})
            if entry.name not in self._made:
                await retry.call(lambda: self._make_namespace(plugin, entry))
            step = "err-mem"
            complete = await add_vector(write, promised, self.embedder)
            await retry.call(lambda: self._write_memory(plugin, entry, complete))
        except PerimeterError as problem:
            self.tally.errors += 1
            self.say(f"[{step}] id={row.id} ns={entry.name} {problem}")
            return False
        self.tally.copied += 1
        return True

    async def _make_namespace(self, plugin: PluginClient, entry: NamespaceAccess) -> None:
        await plugin.upsert_namespace(entry.name, NamespaceUpsert(kind=entry.kind))
        self._made.add(entry.name)

    async def _write_memory(self, plugin: PluginClient, entry: NamespaceAccess, write: MemoryWrite) -> None:
        """Write a memory; create the namespace again where it was deleted meanwhile."""
        try:
            await plugin.write(entry.name, write)
        except PluginRefused as refusal:
            if refusal.status != _NOT_FOUND:
                raise
        else:
            return
        await self._make_namespace(plugin, entry)
        await plugin.write(entry.name, write)
