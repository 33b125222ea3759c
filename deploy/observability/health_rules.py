"""Pure rules that judge from the ledger whether the service is degraded: old undone work, growing quarantine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from deploy.settings import HealthSettings
from store.database_gauges import DatabaseSample
from store.ledger.ledger import StageCounts
from store.ledger.stages import Stage


class HealthIssueKind(StrEnum):
    """The kind of a health issue: old undone work, or a growing quarantine."""

    BACKLOG = "backlog"
    QUARANTINE = "quarantine"


@dataclass(frozen=True, slots=True)
class LedgerSample:
    """A sample of the ledger: counts of undone and failed rows, and of rows that failed recently.

    `counts` is empty when the ledger could not be read. `database` holds the gauges of the same sample, if requested.
    """

    counts: Mapping[Stage, StageCounts] = field(default_factory=dict)
    newly_failed: int = 0
    database: DatabaseSample | None = None


@dataclass(frozen=True, slots=True)
class HealthIssue:
    """A reason why the service is degraded: its kind, and a text for operators."""

    kind: HealthIssueKind
    reason: str


def find_health_issues(seen: LedgerSample, settings: HealthSettings) -> list[HealthIssue]:
    """Return the issues: stages whose oldest undone row is too old, the oldest first, then a growing quarantine."""
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
