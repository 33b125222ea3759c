"""The protocol of a store behind the contract's routes; its arguments are validated.

Its errors are those of the service: NotFound for a namespace or memory that is not there, Invalid for what the contract
allows and the store cannot keep, OverQuota, Overloaded and RateLimited, and the database's errors when it is
away.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from producers.plugin.wire import Found, Health, MemoryWrite, Namespace, NamespaceKind, SearchRequest, Written


class PluginStore(Protocol):
    """The namespaces and memories of one tenant."""

    @property
    def tenant(self) -> UUID:
        """Whose they are; requests of one tenant take turns with those of others."""
        ...

    @property
    def capabilities(self) -> frozenset[str]:
        """What it promises; fields of anything else never reach it."""
        ...

    async def health(self) -> Health:
        """Return how it is, after a look at what it stands on; raises where that is away."""
        ...

    async def upsert_namespace(self, name: str, kind: NamespaceKind, changes: Mapping[str, Any]) -> Namespace:
        """Make a namespace, or change its kind and what `changes` names (expires_at, metadata); all else is kept."""
        ...

    async def patch_namespace(self, name: str, changes: Mapping[str, Any]) -> Namespace:
        """Change what `changes` names; None clears. Raises NotFound."""
        ...

    async def delete_namespace(self, name: str) -> Sequence[UUID]:
        """Delete a namespace and its memories. Raises NotFound.

        Returns the ids of receipts, where there are any: under these it stands when and how the texts were erased.
        """
        ...

    async def write(self, namespace: str, memory: MemoryWrite) -> Written:
        """Write a memory; one of the same id there is replaced in every field but created_at. Raises NotFound."""
        ...

    async def search(self, request: SearchRequest) -> Found:
        """Return memories of these namespaces alone; a namespace that is not there has none."""
        ...

    async def forget(self, namespace: str, memory_id: UUID) -> Sequence[UUID]:
        """Forget a memory of this namespace; returns receipts as `delete_namespace` does. Raises NotFound."""
        ...
