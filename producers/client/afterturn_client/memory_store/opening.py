"""Opens the memory store that an agent's settings name."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from afterturn_client.errors import InvalidRequestError
from afterturn_client.memory_store.direct_pg import DirectPgStore, Embed
from afterturn_client.memory_store.portal import PortalCommandStore
from afterturn_client.memory_store.protocol import (
    MOST_RECALLED,
    NO_METADATA,
    MemoryOwner,
    MemoryStore,
    StoredUnit,
)
from afterturn_client.memory_store.settings import StoreSettings, WriteMode


async def open_memory_store(
    settings: StoreSettings,
    owner: MemoryOwner,
    *,
    token: str = "",
    database_url: str = "",
    embed: Embed | None = None,
    timeout_s: float = 10.0,
) -> MemoryStore:
    """Open the store that the settings name; close it with `aclose`.

    `token` is needed by commands; `database_url` and `embed` are those of direct-pg. Raises InvalidRequestError,
    MemoryStoreError, UnreachableError.
    """
    store: MemoryStore
    if settings.write_mode is WriteMode.PORTAL_COMMAND:
        if not token:
            raise InvalidRequestError("portal-command needs the agent's token")
        store = PortalCommandStore(settings.command_url, token, owner, timeout_s=timeout_s)
    else:
        if not settings.allow_direct_pg:
            raise InvalidRequestError("direct-pg needs an explicit permission (allow_direct_pg)")
        if not database_url:
            raise InvalidRequestError("direct-pg needs the URL of the platform's database")
        store = await DirectPgStore.open(database_url, owner, embed=embed, timeout_s=timeout_s)
    return store if settings.retain_session_history else WithoutHistory(store)


class WithoutHistory:
    """A store that keeps no histories of sessions (`memory.retainSessionHistory` is false); all else is the inner's."""

    def __init__(self, store: MemoryStore) -> None:
        """Keep the store that does the rest."""
        self._store = store

    @property
    def portable(self) -> bool:
        """As the inner store's."""
        return self._store.portable

    async def ensure_bank(self, bank: UUID) -> None:
        """As MemoryStore.ensure_bank."""
        await self._store.ensure_bank(bank)

    async def retain(
        self, bank: UUID, content: str, *, fact_type: str = "experience", metadata: Mapping[str, Any] = NO_METADATA
    ) -> UUID:
        """As MemoryStore.retain."""
        return await self._store.retain(bank, content, fact_type=fact_type, metadata=metadata)

    async def recall(self, bank: UUID, query: str, *, limit: int = MOST_RECALLED) -> tuple[StoredUnit, ...]:
        """As MemoryStore.recall."""
        return await self._store.recall(bank, query, limit=limit)

    async def append_history(self, bank: UUID, session: UUID, messages: Sequence[Mapping[str, Any]]) -> None:
        """Store nothing."""

    async def read_history(self, bank: UUID, session: UUID) -> tuple[Mapping[str, Any], ...]:  # noqa: ARG002 - as all
        """Return no message."""
        return ()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._store.aclose()
