"""What an agent asks of its memory, whichever way it is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from afterturn_client.errors import AfterturnError

#: The newest messages of a session that are kept before an agent.
MOST_HISTORY = 40
#: Units that a recall returns where none is asked for.
MOST_RECALLED = 5

NO_METADATA: Mapping[str, Any] = {}


class MemoryStoreError(AfterturnError):
    """The store refuses: the bank is another's or inactive, or the database is not one that may be written to."""


@dataclass(frozen=True, slots=True)
class MemoryOwner:
    """Who the memory is of, by the platform's ids: host (tenant), agent and user.

    Commands leave out what is None: the token names it. Direct writes need agent and user.
    """

    host_id: UUID
    agent_def_id: UUID | None = None
    user_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class StoredUnit:
    """A recalled unit."""

    unit_id: UUID
    bank_id: UUID
    content: str = field(repr=False)
    fact_type: str
    metadata: Mapping[str, Any] = field(default_factory=dict, repr=False)


class MemoryStore(Protocol):
    """An agent's memory, bank by bank; a bank is named by the platform's id of it, often that of a session.

    Every method raises subclasses of AfterturnError, none of which holds a text or a credential.
    """

    @property
    def portable(self) -> bool:
        """Whether what is written are events, which are replayed, exported and erased."""
        ...

    async def ensure_bank(self, bank: UUID) -> None:
        """Have the bank of a session, made where it is not there; when this returns, reads see it.

        Raises MemoryStoreError for another's bank and for an inactive one.
        """
        ...

    async def retain(
        self, bank: UUID, content: str, *, fact_type: str = "experience", metadata: Mapping[str, Any] = NO_METADATA
    ) -> UUID:
        """Store a unit and return its id; the next recall sees it. Each call is a unit of its own."""
        ...

    async def recall(self, bank: UUID, query: str, *, limit: int = MOST_RECALLED) -> tuple[StoredUnit, ...]:
        """Return at most `limit` remembered units of the bank, the best first."""
        ...

    async def append_history(self, bank: UUID, session: UUID, messages: Sequence[Mapping[str, Any]]) -> None:
        """Append messages (`role`, `content`) to a session's history, which begins with the first."""
        ...

    async def read_history(self, bank: UUID, session: UUID) -> tuple[Mapping[str, Any], ...]:
        """Return the newest 40 messages of a session, the oldest of them first; none for an unknown session."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...
