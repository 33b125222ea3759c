"""Derives the namespaces of a workspace: its own, its team's and its organisation's. Pure rules."""

from collections.abc import Sequence
from dataclasses import dataclass

from producers.perimeter.errors import InvalidCall, NotPermitted
from producers.perimeter.trees import Workspace
from producers.plugin.wire import NamespaceKind, is_namespace


@dataclass(frozen=True, slots=True)
class NamespaceAccess:
    """A namespace that a workspace reads; `writable`: and writes."""

    name: str
    kind: NamespaceKind
    description: str
    writable: bool
    display_name: str | None = None

    def as_json(self) -> dict[str, object]:
        """Return the entry in the tools' form; `display_name` only where there is one."""
        shown = {"name": self.name, "kind": self.kind, "description": self.description, "writable": self.writable}
        return shown | ({"display_name": self.display_name} if self.display_name else {})


def derive_namespaces(path: Sequence[Workspace]) -> tuple[NamespaceAccess, NamespaceAccess, NamespaceAccess]:
    """Return the three namespaces of the first workspace of a path to the root, always in this order.

    It may write its own and its team's (its parent's, or its own where it is the root); the organisation's only the
    root may write. Raises InvalidCall where an id of a workspace cannot name a namespace.
    """
    own, root = path[0], path[-1]
    parent = path[1] if len(path) > 1 else own
    entries = (
        NamespaceAccess(
            f"workspace:{own.id}", NamespaceKind.WORKSPACE, "Memories of this workspace alone.", True, own.name
        ),
        NamespaceAccess(
            f"team:{parent.id}",
            NamespaceKind.TEAM,
            "Memories shared with the workspaces of the same parent.",
            True,
            parent.name,
        ),
        NamespaceAccess(
            f"org:{root.id}",
            NamespaceKind.ORG,
            "Memories that every workspace of the organisation reads; its root writes them.",
            own.id == root.id,
            root.name,
        ),
    )
    if not all(is_namespace(entry.name) for entry in entries):
        raise InvalidCall("the workspace's id cannot name a namespace: only A-Z a-z 0-9 _ : . - are allowed")
    return entries


def writable_entry(entries: Sequence[NamespaceAccess], name: str | None) -> NamespaceAccess:
    """Return the namespace to write to; None is the workspace's own. Raises NotPermitted.

    A foreign namespace and one that does not exist are refused with the same message.
    """
    if name is None:
        return entries[0]
    for entry in entries:
        if entry.name == name and entry.writable:
            return entry
    raise NotPermitted("this workspace does not write to that namespace: ask list_writable_namespaces")


def readable_entries(entries: Sequence[NamespaceAccess], names: Sequence[str]) -> tuple[NamespaceAccess, ...]:
    """Return the namespaces to read: the reachable ones among `namespaces`; all reachable ones where none is named."""
    return tuple(entry for entry in entries if not names or entry.name in names)
