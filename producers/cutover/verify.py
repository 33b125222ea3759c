"""Checks that a memory plugin has every row of `agent_memories`, under its id and with its text."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from producers.cutover.backfill import NamespaceMap, OutageRetry, Say, Unmappable
from producers.cutover.errors import GaveUp
from producers.cutover.legacy import LegacyMemories, LegacyMemory
from producers.cutover.listing import MemoryListing, find_memory, list_memories
from producers.perimeter.cleaning import sanitise_content
from producers.perimeter.client import PluginClient
from producers.perimeter.errors import PerimeterError, TreeUnreadable
from producers.perimeter.trees import WorkspaceTree
from store.off_loop import run_off_loop
from store.text.redaction import Redaction

SAMPLE = 50
#: Bytes of a text that a report shows.
SHOWN_BYTES = 80


class Unverifiable(Exception):
    """It cannot be determined whether the plugin has a row; the text says why."""


@dataclass
class VerificationReport:
    """The counts of a comparison; `skipped` are rows that no backfill copies: without a namespace or a text."""

    sampled: int = 0
    matches: int = 0
    mismatches: int = 0
    errors: int = 0
    skipped: int = 0

    def __str__(self) -> str:
        counts = f"matches={self.matches} mismatches={self.mismatches} errors={self.errors}"
        return f"Verify complete: workspaces_sampled={self.sampled} {counts}"

    @property
    def holds(self) -> bool:
        """Whether no row that can be copied is missing."""
        return not (self.mismatches or self.errors)


@dataclass
class Verify:
    """A comparison of a workspace, or of a sample of all. Memories that the table lacks are no mismatch.

    Texts are compared as they are stored: without secrets, as `redaction` says.
    """

    source: LegacyMemories
    tree: WorkspaceTree
    plugin: PluginClient
    workspace: str | None = None
    sample: int = SAMPLE
    redaction: Redaction = Redaction.ALL
    patience_s: float = 0.0
    say: Say = print
    random: Random = field(default_factory=Random)
    verdict: VerificationReport = field(default_factory=VerificationReport)

    async def run(self) -> VerificationReport:
        """Compare the workspaces and return the counts. Raises LegacyUnreadable, TreeUnreadable."""
        self._map, self._listings = NamespaceMap(self.tree), dict[str, MemoryListing]()
        for workspace in await self._sample():
            self.verdict.sampled += 1
            try:
                problem = await self._compare(workspace)
            except TreeUnreadable:
                raise
            except (PerimeterError, Unverifiable, GaveUp) as error:
                self.verdict.errors += 1
                self.say(f"[err] workspace={workspace} {error}")
                continue
            if problem is None:
                self.verdict.matches += 1
            else:
                self.verdict.mismatches += 1
                self.say(f"[mismatch] workspace={workspace} {problem}")
        return self.verdict

    async def _sample(self) -> Sequence[str]:
        if self.workspace is not None:
            return [self.workspace]
        known = await self.tree.workspace_ids()
        return self.random.sample(known, min(self.sample, len(known)))

    async def _compare(self, workspace: str) -> str | None:
        """Return the problem of the first row that is missing or differs; None when all rows match."""
        async for row in self.source.rows(await self.source.ids(workspace)):
            try:
                entry = await self._map.namespace_of(row.workspace, row.scope)
            except Unmappable as unmappable:
                self._skip(row, str(unmappable))
                continue
            content = await run_off_loop(len(row.content), sanitise_content, row.content, self.redaction)
            if not content.strip():
                self._skip(row, "the text is blank")
                continue
            problem = await self._find_difference(entry.name, str(row.id), content)
            if problem:
                return f"id={row.id} ns={entry.name} {problem}: {_shorten_content(content)}"
        return None

    def _skip(self, row: LegacyMemory, problem: str) -> None:
        self.verdict.skipped += 1
        self.say(f"[skip] id={row.id} scope={row.scope!r} {problem}")

    async def _find_difference(self, namespace: str, memory_id: str, content: str) -> str | None:
        listing = await self._read_listing(namespace)
        found = listing.memories.get(memory_id)
        if found is None and not listing.complete:
            found = await find_memory(self.plugin, namespace, memory_id, content)
            if found is None:
                raise Unverifiable(
                    f"{namespace} has more memories than the plugin lists, and a search does not find id={memory_id}: "
                    "the plugin must page (capability cursor) to be verified"
                )
        if found is None:
            return "is not in the plugin"
        return None if found.content == content else "has another text in the plugin"

    async def _read_listing(self, namespace: str) -> MemoryListing:
        if namespace not in self._listings:
            retry = OutageRetry(self.plugin, self.say, self.patience_s)
            self._listings[namespace] = await retry.call(lambda: list_memories(self.plugin, namespace))
        return self._listings[namespace]


def _shorten_content(content: str) -> str:
    """Return the first bytes of a text, on one line."""
    return " ".join(content.encode()[:SHOWN_BYTES].decode(errors="ignore").split())
