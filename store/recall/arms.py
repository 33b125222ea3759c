"""The protocol of an arm: it finds units, and scores those that other arms found."""

from typing import Protocol

from sqlalchemy.ext.asyncio import AsyncConnection

from store.recall.settings import RecallSettings
from store.recall.state import ArmResult, RecallState


class Arm(Protocol):
    """One way to find units; it applies the question's filters itself."""

    @property
    def name(self) -> str:
        """The arm's name in answers, explanations and `without`."""
        ...

    def weight(self, settings: RecallSettings) -> float:
        """Return the weight of the arm's scores in the sum."""
        ...

    async def find(self, connection: AsyncConnection, state: RecallState) -> ArmResult:
        """Return the arm's best units of the bank, and its scores, inside the tenant's transaction."""
        ...
