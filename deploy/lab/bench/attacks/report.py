"""The results of the attacks: the victim's figures with and without each attack, and how the attack's calls ended."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from statistics import fmean, median
from typing import Any

from rich.console import Group
from rich.text import Text

from deploy.lab.bench.attacks.attack import Attack
from deploy.lab.bench.measures import Machine, Measure, MeasureTarget
from deploy.tables import ResultTable

#: The victim's p95 may be this many times its quiet p95, plus this number of milliseconds.
TIMES, MORE_MS = 3.0, 50.0
#: A small turn of another tenant may take this many times its quiet time through the stages, plus STAGES_MORE_S.
STAGES_TIMES, STAGES_MORE_S = 3.0, 3.0


@dataclass(frozen=True, slots=True)
class Baseline:
    """The p95 without an attack, and the targets derived from it."""

    turn_p95_ms: float
    recall_p95_ms: float
    stages_p95_s: float

    def mean(self, other: "Baseline") -> "Baseline":
        """Return the mean of two measurements."""
        return Baseline(*(fmean(both) for both in zip(astuple(self), astuple(other), strict=True)))

    @property
    def turn_target_ms(self) -> float:
        """The largest p95 of turns, in milliseconds, that meets the target."""
        return TIMES * self.turn_p95_ms + MORE_MS

    @property
    def recall_target_ms(self) -> float:
        """The largest p95 of recalls, in milliseconds, that meets the target."""
        return TIMES * self.recall_p95_ms + MORE_MS

    @property
    def stages_target_s(self) -> float:
        """The largest p95 of a small turn's time through the stages, in seconds, that meets the target."""
        return STAGES_TIMES * self.stages_p95_s + STAGES_MORE_S


@dataclass(frozen=True, slots=True)
class AttackReport:
    """The result of an attack: how its calls ended, the victim's figures, and its cost for the service.

    `memory_mib` is the largest growth of each process, `restarts` names the processes that ended, `disk_mib` is the
    growth of the database, `recovery_s` is how long the victim missed its targets after the attack.
    """

    attack: Attack
    endings: Mapping[str, int]
    bystander_refused: int
    seconds: float
    turn_p95_ms: float
    recall_p95_ms: float
    #: 0 where it was not measured.
    stages_p95_s: float
    victim_failed: int
    memory_mib: Mapping[str, float]
    restarts: Sequence[str]
    disk_mib: float
    quiet: Baseline
    recovery_s: float = 0.0
    #: How often the attack was made: the figures are medians of as many.
    made: int = 1

    @property
    def wrong_endings(self) -> dict[str, int]:
        """Counts of calls that did not end as required, by ending."""
        return {ending: times for ending, times in self.endings.items() if not self.attack.must.allows(ending)}

    @property
    def measures(self) -> list[Measure]:
        """The victim's figures with their targets."""
        name, quiet = self.attack.name, self.quiet
        return [
            Measure(f"{name}_turn_p95", "ms", self.turn_p95_ms, MeasureTarget("<=", round(quiet.turn_target_ms, 1))),
            Measure(
                f"{name}_recall_p95", "ms", self.recall_p95_ms, MeasureTarget("<=", round(quiet.recall_target_ms, 1))
            ),
            Measure(f"{name}_stages_p95", "s", self.stages_p95_s, MeasureTarget("<=", round(quiet.stages_target_s, 1))),
        ]

    @property
    def failures(self) -> list[str]:
        """The failures of this attack, as texts; empty when it was withstood."""
        found = [f"{one.measure} is {one.ours:.0f} {one.unit}" for one in self.measures if not one.met]
        found += [f"{times} calls ended with {ending}" for ending, times in self.wrong_endings.items()]
        if self.victim_failed:
            found.append(f"{self.victim_failed} calls of the victim failed")
        if self.bystander_refused:
            found.append(f"{self.bystander_refused} calls of a third tenant were refused")
        if self.restarts:
            found.append(f"{', '.join(self.restarts)} ended")
        return found

    def as_json(self) -> dict[str, Any]:
        """Return the entry that `--json` prints beside the measures."""
        return {
            "attack": self.attack.name,
            "does": self.attack.does,
            "must": self.attack.must.value,
            "held": not self.failures,
            "failures": self.failures,
            "endings": dict(self.endings),
            "made": self.made,
            "seconds": round(self.seconds, 1),
            "turn_p95_ms": round(self.turn_p95_ms, 1),
            "recall_p95_ms": round(self.recall_p95_ms, 1),
            "stages_p95_s": round(self.stages_p95_s, 2),
            "victim_failed": self.victim_failed,
            "memory_mib": dict(self.memory_mib),
            "restarts": list(self.restarts),
            "disk_mib": round(self.disk_mib, 1),
            "recovery_s": round(self.recovery_s, 1),
        }

    def in_words(self) -> str:
        """Return the result as a line of text."""
        ended = ", ".join(f"{times} x {ending}" for ending, times in self.endings.items())
        verdict = "held" if not self.failures else f"not held: {'; '.join(self.failures)}"
        grown = ", ".join(f"{name} {size:+.0f} MiB" for name, size in self.memory_mib.items())
        figures = f"turn p95 {self.turn_p95_ms:.0f} ms, recall p95 {self.recall_p95_ms:.0f} ms"
        figures += f", stages p95 {self.stages_p95_s:.1f} s"
        if self.made > 1:
            figures += f", medians of {self.made}"
        return f"{self.attack.name}: {verdict} ({figures}; {ended}; {grown}, disk {self.disk_mib:+.0f} MiB)"


def take_medians(made: Sequence[AttackReport]) -> AttackReport:
    """Return the report of an attack that was made several times: its p95s are medians, everything else adds up."""
    endings: Counter[str] = Counter()
    grown: dict[str, float] = {}
    for one in made:
        endings.update(one.endings)
        grown |= {name: max(size, grown.get(name, size)) for name, size in one.memory_mib.items()}
    return replace(
        made[0],
        endings=dict(endings),
        bystander_refused=sum(one.bystander_refused for one in made),
        seconds=sum(one.seconds for one in made),
        turn_p95_ms=median(one.turn_p95_ms for one in made),
        recall_p95_ms=median(one.recall_p95_ms for one in made),
        stages_p95_s=median(one.stages_p95_s for one in made),
        victim_failed=sum(one.victim_failed for one in made),
        memory_mib=grown,
        restarts=[name for one in made for name in one.restarts],
        disk_mib=sum(one.disk_mib for one in made),
        recovery_s=max(one.recovery_s for one in made),
        made=len(made),
    )


@dataclass(frozen=True, slots=True)
class AttackOutcome:
    """The outcome of the benchmark."""

    machine: Machine
    quiet: Baseline
    reports: Sequence[AttackReport]

    @property
    def met(self) -> bool:
        """Whether every attack was withstood."""
        return not any(report.failures for report in self.reports)

    def as_json(self) -> dict[str, Any]:
        """Return the object that `afterturn bench attacks --json` prints."""
        return {
            "machine": self.machine.as_json(),
            "measures": [measure.as_json() for report in self.reports for measure in report.measures],
            "settings": dict(self.machine.settings),
            "parts": {
                "quiet_turn_p95_ms": round(self.quiet.turn_p95_ms, 1),
                "quiet_recall_p95_ms": round(self.quiet.recall_p95_ms, 1),
                "quiet_stages_p95_s": round(self.quiet.stages_p95_s, 2),
            },
            "attacks": [report.as_json() for report in self.reports],
        }

    def in_words(self) -> Group:
        """Return the outcome as a table for a terminal."""
        numbers = ["turn p95", "recall p95", "stages p95"]
        table = ResultTable("attack", *numbers, "", numbers=numbers)
        quiet = self.quiet
        table.add_values("quiet", *_format_figures(quiet.turn_p95_ms, quiet.recall_p95_ms, quiet.stages_p95_s), "")
        targets = _format_figures(quiet.turn_target_ms, quiet.recall_target_ms, quiet.stages_target_s)
        table.add_values("at most", *targets, "")
        for one in self.reports:
            verdict = Text("; ".join(one.failures), style="red") if one.failures else Text("held", style="green")
            felt = _format_figures(one.turn_p95_ms, one.recall_p95_ms, one.stages_p95_s)
            table.add_values(one.attack.name, *felt, verdict)
        return Group(Text(f"{self.machine.cores} cores, PostgreSQL {self.machine.postgresql}"), table)


def _format_figures(turn_ms: float, recall_ms: float, stages_s: float) -> tuple[str, str, str]:
    return f"{turn_ms:.0f} ms", f"{recall_ms:.0f} ms", f"{stages_s:.1f} s"
