"""The protocol of an arm: it finds units, and scores those that other arms found."""

from typing import Protocol

from sqlalchemy.ext.asyncio import AsyncConnection

from store.recall.settings import RecallSettings
from store.recall.state import ArmResult, RecallState


class Arm(Protocol):
    """One way to find units; filters act inside it."""

    @property
    def name(self) -> str:
        """What answers and explanations call it."""
        ...

    def weight(self, settings: RecallSettings) -> float:
        """Return how much its scores count in the sum."""
        ...

    async def find(self, connection: AsyncConnection, state: RecallState) -> ArmResult:
        """Search the bank inside the tenant's transaction."""
        ...
