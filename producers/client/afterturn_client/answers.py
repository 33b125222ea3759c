"""Answers of the service as frozen values. Their repr shows no remembered text."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from afterturn_client.contract.freshness import Freshness
from afterturn_client.contract.shape import show_line
from afterturn_client.errors import ApiError
from afterturn_client.reading import Fields, read_shape


@dataclass(frozen=True, slots=True)
class TurnReceipt:
    """The turn is durable. `position` is its position in the log; `duplicate`: it was stored before."""

    session_id: str
    turn_id: str
    position: int
    duplicate: bool


@dataclass(frozen=True, slots=True)
class RefusedTurn:
    """A refused turn of a batch, with the error; the other turns are not affected."""

    session_id: str
    turn_id: str
    error: ApiError


@dataclass(frozen=True, slots=True)
class Recalled:
    """One recalled unit. `arms`: the searches that found it; `bank` is set in recalls across banks.

    `turn_ids`: all turns that say it, `turn_id` first. `confidence`: how sure a fact is, 0 to 1, where that is known.
    `handle`: the number of its line in the reference. `former`: it no longer holds, since its speaker said later what
    takes its place, or the fact that it states was forgotten. `times`: where the question asks when, the days that its
    text names ("2026-03-02", or the first and the last: "2026-03-02/2026-03-08").
    """

    unit_id: str
    kind: str
    text: str = field(repr=False)
    score: float
    session_id: str | None
    turn_id: str | None
    role: str | None
    name: str | None
    occurred_at: datetime | None
    arms: tuple[str, ...]
    explain: Mapping[str, Any] | None = field(default=None, repr=False)
    bank: str | None = None
    turn_ids: tuple[str, ...] = ()
    confidence: float | None = None
    handle: int | None = None
    former: bool = False
    times: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the unit to be read, on a line; `repr` does not show its text."""
        when = f"{self.occurred_at:%Y-%m-%d}" if self.occurred_at else "no date"
        when += " (former)" if self.former else ""
        return f"{self.score:.2f} {when} {show_line(self.name or self.role or self.kind)}: {show_line(self.text)}"


@dataclass(frozen=True, slots=True)
class Directive:
    """A standing instruction of the bank's keepers; the highest priority comes first.

    `laid_down_by` says who they are: `operator`, `user NAME`, `agent NAME`; None where the service does not tell.
    """

    name: str = field(repr=False)
    content: str = field(repr=False)
    priority: int
    laid_down_by: str | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Whether the answer probably contains evidence: flags, which filter nothing.

    `top` is the best score, `on_topic` whether it is one that answers have. `about`, where the question names one
    speaker: "other_speaker" if what others said fits better than the best of theirs. `understands`: the only languages
    that the sentence model knows ("english" for the bundled one), None where no such limit is known.
    """

    top: float | None = None
    on_topic: bool = True
    about: str | None = None
    understands: str | None = None


@dataclass(frozen=True, slots=True)
class RecallAnswer:
    """The answer of a recall, best results first.

    `reference` is the ready-made message for the prompt (role user, framed as untrusted; the `directives` of the bank
    stand before it in a frame of their own) or None. `degraded` names the
    parts that did not answer, such as "rerank: late". `truncated`: there was no room for all results in one answer.
    `evidence` says whether the results are likely to answer, `bank_known` whether there is such a bank.
    `tokens` is what a prompt pays for the reference; None where the service does not say. `unembedded`: how many of the
    newest texts were searched by words alone, since they had no vector in time. `raw` is the service's answer as it
    came.
    """

    results: tuple[Recalled, ...]
    reference: Mapping[str, str] | None = field(repr=False)
    freshness: Freshness
    took_ms: float
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    degraded: tuple[str, ...] = ()
    directives: tuple[Directive, ...] = ()
    truncated: bool = False
    evidence: Evidence = Evidence()
    bank_known: bool = True
    tokens: int | None = None
    unembedded: int = 0

    def __str__(self) -> str:
        """Return the results to be read, a line each; `repr` does not show their texts."""
        if not self.results:
            return "nothing was found" if self.bank_known else "nothing was found: there is no such bank yet"
        return "\n".join(map(str, self.results))


@dataclass(frozen=True, slots=True)
class RecallJob:
    """A recall job; its answer is available until `expires_at`."""

    job_id: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class RecallJobState:
    """A recall job: pending, done, failed or expired; `answer` when it is done."""

    status: str
    answer: RecallAnswer | None


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the service is ready; `raw` names the failing parts and the reasons of a degraded one."""

    status: Literal["ready", "degraded", "failing"]
    raw: Mapping[str, Any] = field(compare=False)


def read_freshness(value: object) -> Freshness:
    """Read a freshness block."""
    return read_shape(Freshness, value)


def read_recall(value: object) -> RecallAnswer:
    """Read the answer of POST /api/v1/recall."""
    fields = Fields.of(value, "recall")
    reference = None
    if fields.values.get("reference") is not None:
        message = fields.object("reference")
        reference = {"role": message.text("role"), "content": message.text("content")}
    return RecallAnswer(
        tuple(_parse_recalled(one) for one in fields.objects("results")),
        reference,
        read_shape(Freshness, fields.values.get("freshness")),
        fields.real("took_ms"),
        fields.values,
        fields.texts("degraded"),
        tuple(_parse_directive(one) for one in (fields.objects("directives") if "directives" in fields.values else ())),
        fields.values.get("truncated") is True,
        _parse_evidence(fields),
        fields.values.get("bank_known") is not False,
        fields.integer("tokens") if fields.values.get("tokens") is not None else None,
        fields.integer("unembedded") if fields.values.get("unembedded") is not None else 0,
    )


def _parse_evidence(fields: Fields) -> Evidence:
    """Return the flags; a service that does not tell them vouches for nothing."""
    if fields.values.get("evidence") is None:
        return Evidence()
    told = fields.object("evidence")
    top = None if told.values.get("top") is None else told.real("top")
    about = None if told.values.get("about") is None else told.text("about")
    return Evidence(top, told.flag("on_topic"), about, told.maybe_text("understands"))


def read_job(value: object) -> RecallJob:
    """Read the answer of POST /api/v1/recall/jobs."""
    fields = Fields.of(value, "recall job")
    return RecallJob(fields.text("job_id"), fields.moment("expires_at"))


def read_job_state(value: object) -> RecallJobState:
    """Read the answer of GET /api/v1/recall/jobs/{id}."""
    fields = Fields.of(value, "recall job")
    result = fields.values.get("result")
    return RecallJobState(fields.text("status"), None if result is None else read_recall(result))


def _parse_directive(fields: Fields) -> Directive:
    return Directive(
        fields.text("name"), fields.text("content"), fields.integer("priority"), fields.maybe_text("laid_down_by")
    )


def _parse_recalled(fields: Fields) -> Recalled:
    explain = None if fields.values.get("explain") is None else fields.object("explain").values
    turn_id = fields.maybe_text("turn_id")
    return Recalled(
        unit_id=fields.text("unit_id"),
        kind=fields.text("kind"),
        text=fields.text("text"),
        score=fields.real("score"),
        session_id=fields.maybe_text("session_id"),
        turn_id=turn_id,
        role=fields.maybe_text("role"),
        name=fields.maybe_text("name"),
        occurred_at=fields.maybe_moment("occurred_at"),
        arms=fields.texts("arms"),
        explain=explain,
        bank=fields.maybe_text("bank"),
        turn_ids=fields.texts("turn_ids") or (() if turn_id is None else (turn_id,)),
        confidence=None if fields.values.get("confidence") is None else fields.real("confidence"),
        handle=fields.integer("handle") if fields.values.get("handle") is not None else None,
        former=fields.values.get("former") is True,
        times=fields.texts("times"),
    )
