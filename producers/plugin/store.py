"""The protocol of a store behind the contract's routes; its arguments are validated.

Its errors are those of the service: NotFound for an unknown namespace or memory, Invalid for input that the contract
allows and the store cannot hold, OverQuota, Overloaded and RateLimited, and the database's errors when it is away.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from producers.plugin.wire import Found, Health, MemoryWrite, Namespace, NamespaceKind, SearchRequest, Written


class PluginStore(Protocol):
    """The namespaces and memories of one tenant."""

    @property
    def tenant(self) -> UUID:
        """The tenant's id, by which the fair queue schedules requests."""
        ...

    @property
    def capabilities(self) -> frozenset[str]:
        """The store's capabilities; fields of others never reach it."""
        ...

    async def health(self) -> Health:
        """Return the health, after a check of the store's dependencies; raises where these are away."""
        ...

    async def upsert_namespace(self, name: str, kind: NamespaceKind, changes: Mapping[str, Any]) -> Namespace:
        """Create a namespace, or change its kind and the fields in `changes` (expires_at, metadata) alone."""
        ...

    async def patch_namespace(self, name: str, changes: Mapping[str, Any]) -> Namespace:
        """Change the fields in `changes`; None clears one. Raises NotFound."""
        ...

    async def delete_namespace(self, name: str) -> Sequence[UUID]:
        """Delete a namespace and its memories. Raises NotFound.

        Returns the ids of the erasures' receipts, where there are any.
        """
        ...

    async def write(self, namespace: str, memory: MemoryWrite) -> Written:
        """Write a memory; one of the same id in the namespace is replaced, except created_at. Raises NotFound."""
        ...

    async def search(self, request: SearchRequest) -> Found:
        """Return memories of these namespaces alone; an unknown namespace has none."""
        ...

    async def forget(self, namespace: str, memory_id: UUID) -> Sequence[UUID]:
        """Forget a memory of this namespace; return receipts like `delete_namespace`. Raises NotFound."""
        ...
