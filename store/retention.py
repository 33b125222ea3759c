"""How long passing facts hold: those of tier L1 and L2 end at a midnight of UTC, those of L0 do not end.

The end is computed when a fact is written and stands in its event, so that a replay on any day makes the same rows.
A change of these settings concerns facts that are written after it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from types import MappingProxyType
from typing import Final
from uuid import UUID

#: Facts of tier L2 that last: what a person likes does not end after a week.
LASTING: Final = frozenset({"user_like", "user_dislike"})


@dataclass(frozen=True, slots=True)
class TierRetention:
    """Days that facts of a tier hold, counted from the beginning of the day (UTC) on which they were said; 0: no end.

    `likes_end`: likes and dislikes end with their tier, as the turn tools' contract has it.
    """

    l1_days: int = 1
    l2_days: int = 7
    likes_end: bool = False

    def compute_end(self, fact_id: str, tier: str, said_at: datetime) -> datetime | None:
        """Return when a fact that was said at this time (aware) ends; None: never. Another tier than L0, L1 is L2."""
        days = 0 if tier == "L0" else self.l1_days if tier == "L1" else self.l2_days
        if not days or (fact_id in LASTING and not self.likes_end):
            return None
        try:
            return datetime.combine(said_at.astimezone(UTC).date(), time(), UTC) + timedelta(days=days)
        except OverflowError:
            return None


_USUAL = TierRetention()


@dataclass(frozen=True, slots=True)
class FactRetention:
    """The retention of each bank: its own, else its tenant's, else the usual one."""

    usual: TierRetention = _USUAL
    hosts: Mapping[UUID, TierRetention] = field(default_factory=lambda: MappingProxyType({}))
    banks: Mapping[UUID, TierRetention] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, host: UUID, bank: UUID) -> TierRetention:
        """Return the retention of a tenant's bank."""
        return self.banks.get(bank) or self.hosts.get(host) or self.usual
