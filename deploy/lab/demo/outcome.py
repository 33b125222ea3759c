"""The outcome of the demo and its verdict."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from deploy.lab.demo.data import DemoQuestion, FreshWrite, TurnName

#: An answer counts when evidence is among this number of first results.
FIRST = 5
#: Of ten questions, this number must be answered.
ANSWERED_OF_TEN = 9
#: A text that was just written must be among this number of first results.
FRESH_FIRST = 10


@dataclass(frozen=True, slots=True)
class DemoStageCounts:
    """The number of turns of a stage by state."""

    stage: str
    pending: int = 0
    running: int = 0
    done: int = 0
    skipped: int = 0
    unknown: int = 0
    dead: int = 0

    @classmethod
    def of(cls, stage: str, counts: Mapping[str, int]) -> "DemoStageCounts":
        """Return the counts of a stage from those of `afterturn status --json`."""
        return cls(stage, **counts)

    @property
    def through(self) -> int:
        """The number of turns that have passed the stage."""
        return self.done + self.skipped

    @property
    def others(self) -> str:
        """The number of turns in other states, as text."""
        counts = {name: getattr(self, name) for name in ("pending", "running", "unknown", "dead")}
        return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


@dataclass(frozen=True, slots=True)
class RecalledTurn:
    """A result of a recall, and the turn it came from."""

    text: str
    turn: TurnName | None


@dataclass(frozen=True, slots=True)
class RankedAnswer:
    """The results for a question, best first, and the duration in milliseconds."""

    question: DemoQuestion
    results: tuple[RecalledTurn, ...]
    took_ms: float

    @property
    def rank(self) -> int | None:
        """The rank of the first result that is evidence, from 1; None if there is none."""
        evidence = set(self.question.evidence)
        return next((place for place, one in enumerate(self.results, start=1) if one.turn in evidence), None)

    @property
    def held(self) -> bool:
        """Whether evidence is among the first five."""
        return self.rank is not None and self.rank <= FIRST


@dataclass(frozen=True, slots=True)
class FreshAnswer:
    """The rank at which a text was found that had just been written; None if it was not found."""

    write: FreshWrite
    rank: int | None
    took_ms: float

    @property
    def held(self) -> bool:
        """Whether the text is among the first ten."""
        return self.rank is not None and self.rank <= FRESH_FIRST


@dataclass(frozen=True, slots=True)
class EntityRow:
    """An entity of the bank under its canonical name, its mentions, and its most frequent neighbours, those first.

    Aliases count for their canonical entity.
    """

    name: str
    kind: str
    mentions: int
    beside: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    """The outcome of a run; `turns` is the number of accepted turns, `seconds` the duration."""

    turns: int
    stages: tuple[DemoStageCounts, ...]
    answers: tuple[RankedAnswer, ...]
    fresh: tuple[FreshAnswer, ...]
    entities: tuple[EntityRow, ...]
    seconds: float

    @property
    def failures(self) -> tuple[str, ...]:
        """The failures of the run, as texts; empty when the demo succeeded."""
        return tuple(self._find_failures())

    def _find_failures(self) -> Iterator[str]:
        for stage in self.stages:
            if stage.through != self.turns:
                yield f"{stage.stage}: {stage.through} of {self.turns} turns went through ({stage.others})"
        held = sum(answer.held for answer in self.answers)
        if not self.answers or held * 10 < ANSWERED_OF_TEN * len(self.answers):
            yield f"recall: {held} of {len(self.answers)} questions had evidence among the first {FIRST}"
        lost = [one.write.ask for one in self.fresh if not one.held]
        if lost or not self.fresh:
            found = len(self.fresh) - len(lost)
            yield f"read your writes: {found} of {len(self.fresh)} came back among the first {FRESH_FIRST}"
        if not self.entities:
            yield "entities: none were found"
