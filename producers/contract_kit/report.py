"""The results of a run, one for each case, and the exit status."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from producers.contract_kit.findings import ContractFinding
from producers.contract_kit.registry import STORE_COMMANDS, Case
from producers.contract_kit.wire import CAPABILITIES, CONTRACT

#: Exit statuses: every case that ran passed; one failed; the plugin cannot be judged; interrupted.
PASSED_STATUS, FAILED_STATUS, UNUSABLE_STATUS, INTERRUPTED_STATUS = 0, 1, 2, 130


class CaseVerdict(StrEnum):
    """The outcome of a case."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one case. A failed one has a finding for each deviation, a skipped one its `missing` needs."""

    case: Case
    verdict: CaseVerdict
    did: str
    findings: tuple[ContractFinding, ...] = ()
    missing: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def why_skipped(self) -> str:
        """The reason why it was skipped, for a person; empty where it was not."""
        return why_skipped(self.missing)

    def as_json(self) -> dict[str, Any]:
        """Return the result as an object; `did`, `expected` and `saw` are those of the first deviation, if any."""
        findings = [{"did": one.did, "expected": one.expected, "saw": one.saw} for one in self.findings]
        passed = {"did": self.did, "expected": self.case.promise, "saw": self.why_skipped or "what was expected"}
        return {
            "id": self.case.id,
            "clause": self.case.clause,
            "needs": list(self.case.needs),
            "status": self.verdict.value,
            **(findings[0] if findings else passed),
            "promise": self.case.promise,
            **({"mend": self.case.mend, "deviations": findings} if findings else {}),
            "seconds": round(self.seconds, 3),
        }


def why_skipped(missing: Collection[str]) -> str:
    """Return the reason for missing needs, for a person."""
    unclaimed = [name for name in CAPABILITIES if name in missing]
    why = [f"the plugin does not claim {', '.join(unclaimed)}"] if unclaimed else []
    return "; ".join([*why, *(["needs --stop-store and --start-store"] if STORE_COMMANDS in missing else [])])


@dataclass(slots=True)
class ContractReport:
    """The results of a run so far; an interrupted run reports the cases that ended."""

    url: str = ""
    namespaces: str = ""
    version: str | None = None
    claimed: tuple[str, ...] = ()
    results: list[Result] = field(default_factory=list)
    left_behind: list[str] = field(default_factory=list)
    #: Why nothing could be judged, or why the run stopped before its end.
    unusable: str | None = None
    stopped: str | None = None
    interrupted: bool = False
    seconds: float = 0.0
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def failed(self) -> list[Result]:
        """The results of the cases that failed."""
        return [one for one in self.results if one.verdict is CaseVerdict.FAILED]

    @property
    def exit_status(self) -> int:
        """The exit status of the command."""
        if self.interrupted:
            return INTERRUPTED_STATUS
        if self.unusable is not None:
            return UNUSABLE_STATUS
        return FAILED_STATUS if self.failed else PASSED_STATUS

    def counts(self, results: Iterable[Result] | None = None) -> dict[str, int]:
        """Return how many cases passed, failed and were skipped."""
        seen = Counter(one.verdict for one in (self.results if results is None else results))
        return {verdict.value: seen[verdict] for verdict in CaseVerdict}

    def by_capability(self) -> Mapping[str, Mapping[str, Any]]:
        """Return for each capability whether it is claimed, and how the cases that need it ended."""
        return {
            name: {
                "claimed": name in self.claimed,
                **self.counts(one for one in self.results if name in one.case.needs),
            }
            for name in CAPABILITIES
        }

    def as_json(self) -> dict[str, Any]:
        """Return the whole report as one object."""
        return {
            "contract": CONTRACT,
            "url": self.url,
            "version": self.version,
            "claimed": list(self.claimed),
            "exit_status": self.exit_status,
            **self.counts(),
            "unusable": self.unusable,
            "stopped": self.stopped,
            "interrupted": self.interrupted,
            "started_at": self.started_at.isoformat(),
            "seconds": round(self.seconds, 3),
            "namespaces": self.namespaces,
            "left_behind": self.left_behind,
            "capabilities": self.by_capability(),
            "cases": [one.as_json() for one in self.results],
        }
