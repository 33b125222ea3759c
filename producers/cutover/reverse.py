"""Reverse run: lists memories written since the cut-over, and adds them to `agent_memories`."""

from dataclasses import dataclass, field
from uuid import UUID

from producers.cutover.backfill import NamespaceMap, Say, Unmappable
from producers.cutover.legacy import SCOPES, LegacyMemories, LegacyMemory
from producers.cutover.listing import list_memories
from producers.perimeter.client import PluginClient
from producers.perimeter.errors import PerimeterError
from producers.perimeter.trees import WorkspaceTree
from producers.plugin.wire import Memory

_SCOPE_OF = {kind: scope for scope, kind in SCOPES.items()}


@dataclass
class ReverseTally:
    """The counts of a reverse run: `listed` memories that the table lacks, `gone` rows that the plugin lacks."""

    listed: int = 0
    written: int = 0
    skipped: int = 0
    gone: int = 0
    errors: int = 0

    def __str__(self) -> str:
        return (
            f"Reverse complete: listed={self.listed} written={self.written} skipped={self.skipped} gone={self.gone} "
            f"errors={self.errors}"
        )

    @property
    def clean(self) -> bool:
        """Whether all new memories could be listed, and fit into the table."""
        return not (self.skipped or self.errors)


@dataclass(frozen=True, slots=True)
class Owner:
    """The workspace and the scope of the rows that memories of a namespace become."""

    workspace: str
    scope: str


@dataclass
class Reverse:
    """A reverse run; it writes only with `apply`. Existing rows stay as they are."""

    source: LegacyMemories
    tree: WorkspaceTree
    plugin: PluginClient
    workspace: str | None = None
    apply: bool = False
    say: Say = print
    tally: ReverseTally = field(default_factory=ReverseTally)

    async def run(self) -> ReverseTally:
        """List new memories, and write them back with `apply`. Raises LegacyUnreadable, TreeUnreadable."""
        map_ = NamespaceMap(self.tree)
        legacy = await self._legacy_ids(map_)
        for namespace, owner in (await self._read_owners(map_)).items():
            try:
                listing = await list_memories(self.plugin, namespace)
            except PerimeterError as problem:
                self.tally.errors += 1
                self.say(f"[err] ns={namespace} {problem}")
                continue
            if not listing.complete:
                self.tally.errors += 1
                self.say(f"[err] ns={namespace} it has more memories than the plugin lists (no capability cursor)")
            else:
                self._tell_gone(namespace, legacy.get(namespace, set()) - listing.memories.keys())
            await self._bring_back(list(listing.memories.values()), owner)
        return self.tally

    async def _legacy_ids(self, map_: NamespaceMap) -> dict[str, set[str]]:
        """Return the ids of the rows by their namespace."""
        ids = dict[str, set[str]]()
        async for row in self.source.rows(await self.source.ids(self.workspace)):
            try:
                entry = await map_.namespace_of(row.workspace, row.scope)
            except Unmappable:
                continue
            ids.setdefault(entry.name, set()).add(str(row.id))
        return ids

    async def _read_owners(self, map_: NamespaceMap) -> dict[str, Owner]:
        """Return the owner of each namespace: the first workspace whose rows a backfill would copy there."""
        owners = dict[str, Owner]()
        workspaces = await self.tree.workspace_ids() if self.workspace is None else [self.workspace]
        for workspace in workspaces:
            try:
                entries = await map_.entries(workspace)
            except Unmappable as problem:
                self.tally.errors += 1
                self.say(f"[err] workspace={workspace} {problem}")
                continue
            for entry in entries:
                # An organisation's rows are its root's where the root is known.
                if entry.name not in owners or entry.name == f"{entry.kind}:{workspace}":
                    owners[entry.name] = Owner(workspace, _SCOPE_OF[entry.kind])
        return owners

    def _tell_gone(self, namespace: str, gone: set[str]) -> None:
        for memory_id in sorted(gone):
            self.tally.gone += 1
            self.say(f"[gone] id={memory_id} ns={namespace} the plugin shows it no more; agent_memories still has it")

    async def _bring_back(self, memories: list[Memory], owner: Owner) -> None:
        found = {identified: memory for memory in memories if (identified := _parse_id(memory))}
        if len(found) < len(memories):
            self.tally.errors += len(memories) - len(found)
            self.say(f"[err] {len(memories) - len(found)} memories have an id that is no UUID")
        known = await self.source.existing(list(found))
        for memory_id, memory in sorted(found.items(), key=lambda one: (one[1].created_at, one[0])):
            if memory_id not in known:
                await self._bring_one_back(memory_id, memory, owner)

    async def _bring_one_back(self, memory_id: UUID, memory: Memory, owner: Owner) -> None:
        self.tally.listed += 1
        shown = f"id={memory_id} ns={memory.namespace} → workspace={owner.workspace} scope={owner.scope}"
        if memory.expires_at is not None:
            self.tally.skipped += 1
            self.say(f"[skip] {shown} it ends at {memory.expires_at.isoformat()}, which agent_memories cannot keep")
            return
        row = LegacyMemory(memory_id, owner.workspace, memory.content, owner.scope, memory.created_at)
        if self.apply and await self.source.add(row):
            self.tally.written += 1
        self.say(f"[new] {shown}")


def _parse_id(memory: Memory) -> UUID | None:
    try:
        return UUID(memory.id)
    except ValueError:
        return None
