"""Rules by which the ledger shows a degraded service: old work, growing quarantine. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from deploy.settings import HealthSettings
from store.database_gauges import DatabaseSample
from store.ledger.ledger import StageCounts
from store.ledger.stages import Stage


class HealthIssueKind(StrEnum):
    """What is not as it should be."""

    BACKLOG = "backlog"
    QUARANTINE = "quarantine"


@dataclass(frozen=True, slots=True)
class LedgerSample:
    """The ledger at one look: what is undone or failed, and how much of that failed lately. Empty: not to be read.

    `database` are the gauges of the same look, where they were asked for.
    """

    counts: Mapping[Stage, StageCounts] = field(default_factory=dict)
    newly_failed: int = 0
    database: DatabaseSample | None = None


@dataclass(frozen=True, slots=True)
class HealthIssue:
    """One reason to call the service degraded, in words."""

    kind: HealthIssueKind
    reason: str


def find_health_issues(seen: LedgerSample, settings: HealthSettings) -> list[HealthIssue]:
    """Return what is wrong, worst first: nothing when all is well."""
    found = [
        HealthIssue(
            HealthIssueKind.BACKLOG, f"{stage}: the oldest undone work waits for {counts.oldest_undone_s:.0f} s"
        )
        for stage, counts in sorted(seen.counts.items(), key=lambda item: -item[1].oldest_undone_s)
        if counts.oldest_undone_s > settings.oldest_undone_seconds
    ]
    if seen.newly_failed >= settings.quarantine_growth:
        minutes = settings.quarantine_window_seconds / 60
        found.append(
            HealthIssue(
                HealthIssueKind.QUARANTINE, f"quarantine: {seen.newly_failed} more within {minutes:.0f} minutes"
            )
        )
    return found
