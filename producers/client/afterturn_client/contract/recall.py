"""The answer of a recall. A field at its default is left out of the answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

from afterturn_client.contract.freshness import Freshness
from afterturn_client.contract.knowledge import Directive
from afterturn_client.contract.shape import Shape, SparseShape, show_line

#: The ready-made message of a prompt.
Message = Mapping[Literal["role", "content"], str]
About = Literal["named", "other_speaker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmScore(Shape):
    """One search's view of a unit."""

    rank: int
    """its rank among the units compared, from 1"""
    score: float
    """its score by this search alone"""
    weight: float
    """weight of that score in the sum"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(Shape):
    """The parts of a unit's score."""

    arms: Mapping[str, ArmScore]
    """the score by each search"""
    moved: Mapping[str, float]
    """by how much each rule moved the sum"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled(SparseShape):
    """One recalled unit; where it is `cut`, its text is a passage."""

    unit_id: UUID
    """id of the unit"""
    kind: str
    """fact type: `world`, `experience`, `opinion`, `observation` or `mental_model`"""
    text: str = field(repr=False)
    """whole text, or the passage that fits best"""
    score: float
    """how well it fits the question"""
    handle: int
    """number of its line in `reference`: a model that cites [3] means handle 3"""
    session_id: str | None
    """the caller's own id of the session; null: it has none"""
    turn_id: str | None
    """the caller's own id of the turn; null: it has none"""
    role: str | None
    """role of the speaker; null: it has none"""
    name: str | None
    """name of the speaker, or in a bank of several users the name that the user states; null: none is known"""
    occurred_at: datetime
    """when it happened, in UTC"""
    arms: tuple[str, ...]
    """searches that found it"""
    confidence: float | None = None
    """confidence of a fact, 0 to 1, where it is known"""
    bank: str | None = None
    """bank of the unit, told across banks"""
    cut: bool = False
    """true where the text is a passage: the unit has the whole"""
    former: bool = False
    """true where it no longer holds: its speaker said later what takes its place, a result before it, or the fact that
    it states was forgotten"""
    times: tuple[str, ...] = ()
    """where the question asks when: days that its text names (`2026-03-02`), or the first and last of several
    (`2026-03-02/2026-03-08`), reckoned from when it was said"""
    turn_ids: tuple[str, ...] = ()
    """the caller's own ids of all turns that say it, `turn_id` first; left out where that is the only one"""
    explain: Explanation | None = field(default=None, repr=False)
    """how the score came about, told with `explain`"""

    def __post_init__(self) -> None:
        if not self.turn_ids and self.turn_id is not None:
            object.__setattr__(self, "turn_ids", (self.turn_id,))

    def __str__(self) -> str:
        """Return the unit to be read, on a line; `repr` does not show its text."""
        when = f"{self.occurred_at:%Y-%m-%d}{' (former)' if self.former else ''}"
        return f"{self.score:.2f} {when} {show_line(self.name or self.role or self.kind)}: {show_line(self.text)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence(SparseShape):
    """Whether the answer probably contains evidence: flags for the agent, which filter nothing."""

    top: float | None
    """best score; null: nothing was found"""
    on_topic: bool
    """whether a result's own text scores as answers do (settings `recall.evidence.*`)"""
    about: About | None
    """if the question names one speaker: `other_speaker` if the words of others fit better, else `named`"""
    understands: str | None = None
    """the only languages that the sentence model knows, `english` for the bundled one: texts in others are found by
    their words; left out: no such limit is known"""


#: The flags of an answer that found nothing.
NO_EVIDENCE = Evidence(top=None, on_topic=False, about=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayError(Shape):
    """The error of a gateway."""

    category: str
    """category of the error"""
    http_status: int | None
    """HTTP status that the gateway answered; null: none"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayResult(Shape):
    """One result of a gateway."""

    id: str | None
    """the gateway's own id"""
    text: str = field(repr=False)
    """text of the result"""
    score: float | None
    """the gateway's score"""
    session_id: str | None
    """session that it is from, by the gateway's id"""
    source_scope: str | None
    """scope in which it was found"""
    resource_uri: str | None
    """resource that it is from"""
    handle: int
    """number of its line in `reference`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayResults(Shape):
    """The results of the gateway, when it was searched."""

    results: tuple[GatewayResult, ...]
    """results of the gateway"""
    error: GatewayError | None
    """why it found nothing; null: it answered"""
    took_ms: float
    """milliseconds of the search"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallReply(SparseShape):
    """Recalled units, and a message ready for a prompt."""

    results: tuple[Recalled, ...]
    """recalled units, best first"""
    reference: Message | None = field(repr=False)
    """the same as a message for the prompt, framed as untrusted; its `role` is `user`, since recalled text is data and
    never an instruction; null: there is nothing to show"""
    freshness: Freshness
    """how fresh the bank is"""
    tokens: int
    """tokens that a prompt pays for `reference`, by the tokenizer of `recall.tokenizer` or an estimate that is seldom
    too low"""
    took_ms: float
    """milliseconds of the search, without waiting"""
    evidence: Evidence
    """whether the results are likely to answer at all"""
    bank_known: bool
    """whether there is such a bank"""
    truncated: bool = False
    """true where there was no room for all results"""
    note: str | None = None
    """number of results left out, and how to ask for less"""
    directives: tuple[Directive, ...] = ()
    """the bank's directives, the highest priority first"""
    degraded: tuple[str, ...] = ()
    """parts that did not answer"""
    unembedded: int = 0
    """how many of the newest texts were searched by words alone: they had no vector in time"""
    trace: Mapping[str, float] | None = None
    """milliseconds by step, told with `explain`"""
    gateway: GatewayResults | None = field(default=None, repr=False)
    """results of the gateway, where it was asked"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallJob(Shape):
    """A recall job that was created."""

    job_id: UUID
    """id of the job"""
    expires_at: datetime
    """time until which the answer is kept"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError(Shape):
    """The error code of a failed recall job."""

    category: str | None
    """category of the error"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallJobReply(SparseShape):
    """A recall job."""

    status: Literal["pending", "done", "failed", "expired"]
    """status of the job"""
    result: RecallReply | None = None
    """the answer, when it is done"""
    error: JobError | None = None
    """the error, when it failed"""
