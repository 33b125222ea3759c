"""Exports and imports a memory plugin's memories of a tree's workspaces: JSON Lines, every memory under its id.

The first line names the format, the last one the number of memories, so that a file that was cut off is detected.
It has callers' vectors, and ends and metadata of namespaces, where the plugin has the capability `export`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO
from uuid import UUID

from producers.cutover.backfill import NamespaceMap, OutageRetry, Say, Unmappable
from producers.cutover.errors import GaveUp
from producers.cutover.lines import check_lines, parse_line, write_line
from producers.cutover.listing import list_memories
from producers.perimeter.cleaning import sanitise_content, sanitise_object
from producers.perimeter.client import PluginClient, build_body
from producers.perimeter.embedder import LazyEmbedder, add_vector
from producers.perimeter.errors import InvalidCall, PerimeterError
from producers.perimeter.trees import WorkspaceTree
from producers.plugin.wire import VERSION, Capability, Memory, MemoryWrite, NamespaceKind, NamespaceUpsert
from store.off_loop import run_off_loop
from store.text.redaction import Redaction

FORMAT = "afterturn-plugin-export-1"


@dataclass
class TransferTally:
    """The counts of an export or import; `total` is the sum of the other three."""

    imported: int = 0
    skipped: int = 0
    errors: int = 0

    @property
    def total(self) -> int:
        """The number of memories that were looked at."""
        return self.imported + self.skipped + self.errors

    def as_json(self) -> dict[str, int]:
        """Return the four counts."""
        return {"imported": self.imported, "skipped": self.skipped, "errors": self.errors, "total": self.total}


async def export_memories(
    plugin: PluginClient, tree: WorkspaceTree, out: BinaryIO, redaction: Redaction = Redaction.ALL, say: Say = print
) -> tuple[int, int]:
    """Write every memory of every workspace's namespaces once; return how many, and how many namespaces are cut off.

    Secrets are replaced again, since memories written without the perimeter may hold some. Raises TreeUnreadable and
    the errors of the plugin's client.
    """
    namespaces = await _namespaces_of(tree, say)
    write_line(out, {"format": FORMAT, "contract": VERSION})
    count, cut_off = 0, list[str]()
    for name, kind in namespaces.items():
        listing = await list_memories(plugin, name, export=True)
        if not listing.complete:
            cut_off.append(name)
            say(f"[cut] ns={name} has more memories than the plugin lists (no capability cursor)")
        if listing.namespace is not None:
            told = listing.namespace.model_dump(mode="json", exclude={"name", "created_at"}, exclude_none=True)
            write_line(out, {"namespace": name, **told})
        elif listing.memories:
            write_line(out, {"namespace": name, "kind": kind})
        for memory in sorted(listing.memories.values(), key=lambda one: (one.created_at, one.id)):
            content = await run_off_loop(len(memory.content), sanitise_content, memory.content, redaction)
            propagation = memory.propagation and sanitise_object(memory.propagation, redaction)
            cleaned = memory.model_copy(update={"content": content, "propagation": propagation})
            write_line(out, {"memory": cleaned.as_json()})
            count += 1
    write_line(out, {"end": count, "cut_off": cut_off})
    return count, len(cut_off)


async def _namespaces_of(tree: WorkspaceTree, say: Say) -> dict[str, NamespaceKind]:
    found, map_ = dict[str, NamespaceKind](), NamespaceMap(tree)
    for workspace in await tree.workspace_ids():
        try:
            found |= {entry.name: entry.kind for entry in await map_.entries(workspace)}
        except Unmappable as problem:
            say(f"[skip] workspace={workspace} {problem}")
    return found


def check_export(lines: Iterable[bytes]) -> int:
    """Read a whole export and return how many memories it has. Raises UnusableFile for one that is cut off."""
    return check_lines(lines, FORMAT, lambda kept: "memory" in kept, "memories")


@dataclass
class Import:
    """An import run: every memory is written under its id, so that it may be run again.

    The `embedder` makes vectors of memories that come without one, for a plugin with the capability `embedding`.
    """

    plugin: PluginClient
    redaction: Redaction = Redaction.ALL
    patience_s: float = 0.0
    say: Say = print
    embedder: LazyEmbedder | None = None
    tally: TransferTally = field(default_factory=TransferTally)

    async def run(self, lines: Iterable[bytes]) -> TransferTally:
        """Write the memories of an export that `check_export` has read. Raises UnusableFile, GaveUp."""
        retry, made = OutageRetry(self.plugin, self.say, self.patience_s), dict[str, bool]()
        promised = await retry.call(self.plugin.capabilities)
        for kept in self._parse_lines(lines):
            if "namespace" in kept:
                made[kept["namespace"]] = await self._make_namespace(retry, kept)
            elif "memory" in kept:
                await self._write(retry, kept["memory"], promised, made)
        return self.tally

    def _parse_lines(self, lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        for number, line in enumerate(lines, 1):
            yield parse_line(line, number)

    async def _make_namespace(self, retry: OutageRetry, kept: dict[str, Any]) -> bool:
        name = str(kept["namespace"])
        try:
            upsert = build_body(
                NamespaceUpsert,
                kind=kept.get("kind"),
                expires_at=kept.get("expires_at"),
                metadata=kept.get("metadata"),
            )
            await retry.call(lambda: self.plugin.upsert_namespace(name, upsert))
        except GaveUp:
            raise
        except PerimeterError as problem:
            self.say(f"[err-ns] ns={name} {problem}")
            return False
        return True

    async def _write(
        self, retry: OutageRetry, kept: dict[str, Any], promised: frozenset[str], made: dict[str, bool]
    ) -> None:
        try:
            memory = build_body(Memory, **kept)
            write = await self._as_write(memory, promised)
        except (InvalidCall, TypeError, ValueError) as problem:
            self.tally.skipped += 1
            self.say(f"[skip] {problem}")
            return
        try:
            if not made.get(memory.namespace):
                raise InvalidCall("its namespace could not be made")
            complete = await add_vector(write, promised, self.embedder)
            await retry.call(lambda: self.plugin.write(memory.namespace, complete))
        except PerimeterError as problem:
            self.tally.errors += 1
            self.say(f"[err-mem] id={memory.id} ns={memory.namespace} {problem}")
            return
        self.tally.imported += 1

    async def _as_write(self, memory: Memory, promised: frozenset[str]) -> MemoryWrite:
        """Return the write request for an exported memory. Raises InvalidCall, ValueError."""
        return build_body(
            MemoryWrite,
            id=UUID(memory.id),
            content=await run_off_loop(len(memory.content), sanitise_content, memory.content, self.redaction),
            kind=memory.kind,
            source=memory.source,
            expires_at=memory.expires_at,
            propagation=memory.propagation and sanitise_object(memory.propagation, self.redaction),
            pin=memory.pin or False,
            embedding=memory.embedding if Capability.EMBEDDING in promised else None,
            created_at=memory.created_at if Capability.CREATED_AT in promised else None,
        )
