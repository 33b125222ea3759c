"""The outcome of a chaos run and its verdict."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from deploy.lab.bench.timing import pick_percentile
from deploy.lab.chaos.counting import TurnOutcomes
from deploy.lab.chaos.deliveries import DeliveryCounts
from deploy.lab.chaos.interrupted import FaultEpisode
from deploy.lab.chaos.sabotage import SEEN_IN, Sabotage
from deploy.lab.chaos.tables import TableComparison

LONGEST_RECOVERY_S = 60.0
LONGEST_RUN_S = 720.0


@dataclass(frozen=True, slots=True)
class FaultEffect:
    """The effect of a fault: number of interrupted rows, seconds from its end until the first and the last finished.

    The seconds are None when no row was interrupted. `at_s` and `lasted_s` are begin and duration within the run.
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
        """Return the effect of a fault, from the times at which the ledger's rows finished."""
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
    """Counts of accepted documents and directive changes, and of those that are not as they were accepted.

    `knowledge_unanswered` counts changes without an answer, or refused.
    """

    documents: int
    directives: int
    knowledge_unanswered: int
    documents_lost: int
    directives_lost: int


@dataclass(frozen=True, slots=True)
class ChaosOutcome:
    """All counts of a chaos run, from the database and the gateway's file.

    `unanswered` counts turns that were not accepted, `resent` repeated sends.
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
        """The failures of the run, as texts; empty when everything holds."""
        shown = self.as_json()
        zero = ("lost", "applied_twice", "out_of_order", "gateway_sent_twice", *SECONDARY_FIGURES)
        died = "".join(f", {how}: {turns}" for how, turns in self.dead_as.items())
        behind = {"dead_elsewhere": f" among the dead{died}"}
        failures = [f"{name} is {shown[name]}{behind.get(name, '')}" for name in zero if shown[name]]
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
        """Return the object that `--json` prints: the specified keys, then their components."""
        recoveries = [one.recovery_s for one in self.felt if one.recovery_s is not None]
        return {
            "accepted": self.turns - self.unanswered,
            "done": len(self.endings.done),
            "dead": len(self.endings.dead),
            "lost": len(self.endings.lost),
            "applied_twice": sum(self.twice.values()),
            "out_of_order": self.deliveries.out_of_order + self.extracted_out_of_order,
            "gateway_sent_twice": self.deliveries.sent_twice,
            "gateway_unknown": len(self.endings.unknown),
            "recovery_p50_s": pick_percentile(recoveries, 0.50),
            "recovery_p99_s": pick_percentile(recoveries, 0.99),
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

    def in_words(self) -> str:
        """Return the outcome as lines of text."""
        shown = self.as_json()
        first, last, samples = (shown[name] for name in ("recovery_p50_s", "recovery_p99_s", "recovery_samples"))
        after = f"{first} s after them (median), {last} s (99th percentile)"
        equal = "as they are without faults" if shown["tables_equal"] else "not as they are without faults"
        verdict = f"It did not hold: {'; '.join(self.failures)}" if self.failures else "All of it held"
        return "\n".join(
            [
                *(_format_count(name, times) for name, times in shown["faults"].items()),
                "",
                *(_format_count(name, shown[name]) for name in FIGURES),
                "",
                f"{samples} faults interrupted work. It went on {after}.",
                f"The tables are {equal}.",
                f"{verdict}, in {shown['seconds']:.0f} s.",
            ]
        )


#: Further figures that must be 0: turns not accepted, or dead in another stage than the gateway; flushes without an
#: add, adds without a turn, and turns recorded as delivered that the file does not show; documents and directives
#: that were not accepted, and those that are not as they were accepted.
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

#: What a person is told: counts of turns, then of documents and directives.
FIGURES = (
    *("accepted", "done", "dead", "lost", "applied_twice", "out_of_order", "gateway_sent_twice", "gateway_unknown"),
    *("documents", "documents_lost", "directives", "directives_lost"),
)


def _format_count(name: str, count: int) -> str:
    return f"{name.replace('_', ' '):<20}{count:>8}"
