"""The outcome of a chaos run and its verdict."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from deploy.lab.chaos.counting import TurnOutcomes
from deploy.lab.chaos.deliveries import DeliveryCounts
from deploy.lab.chaos.interrupted import FaultEpisode
from deploy.lab.chaos.sabotage import SEEN_IN, Sabotage
from deploy.lab.chaos.tables import TableComparison

LONGEST_RECOVERY_S = 60.0
LONGEST_RUN_S = 720.0


@dataclass(frozen=True, slots=True)
class FaultEffect:
    """A fault and what came of it: rows interrupted, seconds from its end to the first and the last that finished.

    None where it interrupted nothing. `at_s` and `lasted_s` are seconds of the run.
    """

    kind: str
    target: str
    at_s: float
    lasted_s: float
    interrupted: int
    recovery_s: float | None
    whole_recovery_s: float | None

    @classmethod
    def of(cls, episode: FaultEpisode, finished: Mapping[Any, float], started: float) -> "FaultEffect":
        """Return how a fault was felt, by when each row of the ledger finished."""
        first, last = episode.recovery(finished) or (None, None)
        return cls(
            episode.kind,
            episode.target,
            round(episode.began - started, 3),
            round(episode.ended - episode.began, 3),
            len(episode.rows),
            None if first is None else round(first, 3),
            None if last is None else round(last, 3),
        )


@dataclass(frozen=True, slots=True)
class KnowledgeCounts:
    """Documents, and changes of directives, that were accepted, and how many of each are not as they were accepted.

    `knowledge_unanswered` never got an answer, or were refused.
    """

    documents: int
    directives: int
    knowledge_unanswered: int
    documents_lost: int
    directives_lost: int


@dataclass(frozen=True, slots=True)
class ChaosOutcome:
    """Everything that was counted, from the database and the gateway's file.

    `unanswered` turns never got an answer, `resent` says how often one had to be sent again.
    """

    turns: int
    unanswered: int
    resent: int
    endings: TurnOutcomes
    dead_as: Mapping[str, int]
    twice: Mapping[str, int]
    extracted_out_of_order: int
    deliveries: DeliveryCounts
    felt: Sequence[FaultEffect]
    tables: Sequence[TableComparison]
    replay_equal: bool
    seconds: float
    kept: KnowledgeCounts
    sabotage: Sabotage | None = None

    @property
    def failures(self) -> list[str]:
        """Return every figure that should be another, in words; none when all holds."""
        shown = self.as_json()
        zero = ("lost", "applied_twice", "out_of_order", "gateway_sent_twice", *SECONDARY_FIGURES)
        failures = [f"{name} is {shown[name]}" for name in zero if shown[name]]
        failures += [f"table {one.table} differs in {one.differing} rows" for one in self.tables if not one.equal]
        if not self.replay_equal:
            failures.append("the replayed log gives other tables")
        unseen = [name for name in SEEN_IN[self.sabotage] if not shown[name]] if self.sabotage else []
        failures += [f"{self.sabotage} was not seen in {name}" for name in unseen]
        if shown["recovery_p99_s"] > LONGEST_RECOVERY_S:
            failures.append(f"recovery_p99_s is {shown['recovery_p99_s']}")
        if self.felt and not shown["recovery_samples"]:
            failures.append("recovery_samples is 0")
        if shown["seconds"] > LONGEST_RUN_S:
            failures.append(f"seconds is {shown['seconds']}")
        return failures

    def as_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints: the contract's keys, then what they are made of."""
        recoveries = sorted(one.recovery_s for one in self.felt if one.recovery_s is not None)
        return {
            "accepted": self.turns - self.unanswered,
            "done": len(self.endings.done),
            "dead": len(self.endings.dead),
            "lost": len(self.endings.lost),
            "applied_twice": sum(self.twice.values()),
            "out_of_order": self.deliveries.out_of_order + self.extracted_out_of_order,
            "gateway_sent_twice": self.deliveries.sent_twice,
            "gateway_unknown": len(self.endings.unknown),
            "recovery_p50_s": _pick_percentile(recoveries, 0.50),
            "recovery_p99_s": _pick_percentile(recoveries, 0.99),
            "tables_equal": all(one.equal for one in self.tables),
            "faults": dict(sorted(Counter(one.kind for one in self.felt).items())),
            "seconds": round(self.seconds, 1),
            "unanswered": self.unanswered,
            "dead_as": dict(self.dead_as),
            "dead_elsewhere": len(self.endings.strays),
            "gateway_flushed_twice": self.deliveries.flushed_twice,
            "gateway_foreign": self.deliveries.foreign,
            "gateway_untrue": self.deliveries.untrue,
            "replay_equal": self.replay_equal,
            "resent": self.resent,
            **asdict(self.kept),
            "recovery_samples": len(recoveries),
            "applied_twice_in": {name: found for name, found in self.twice.items() if found},
            "tables": [{**asdict(one), "equal": one.equal} for one in self.tables],
            "fault_log": [asdict(one) for one in self.felt],
        }


#: Figures of our own that must be nought: turns that never got an answer, or died elsewhere than at the gateway;
#: flushes without an add, adds without a turn, and turns the ledger calls delivered that the file does not show;
#: documents and directives without an answer, and those that were accepted and are not there as they were.
SECONDARY_FIGURES = (
    "unanswered",
    "dead_elsewhere",
    "gateway_flushed_twice",
    "gateway_foreign",
    "gateway_untrue",
    "knowledge_unanswered",
    "documents_lost",
    "directives_lost",
)


def _pick_percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest of the sorted values that is not below this share of them; 0 of none."""
    return values[max(0, math.ceil(share * len(values)) - 1)] if values else 0.0
