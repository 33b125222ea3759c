"""Serialises recall's answers: the contract's JSON, and a message ready for a prompt."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from itertools import accumulate, takewhile
from types import MappingProxyType
from typing import Any, Literal
from uuid import UUID

import orjson
from afterturn_client.contract.freshness import Freshness
from afterturn_client.contract.knowledge import Directive
from afterturn_client.reference import cut_text
from pydantic import Field

from producers.service.framing import frame_message
from producers.service.gateway_recall import GatewayFinding, describe_hit
from producers.service.recall_coordinator import RecallResult
from producers.service.wire import (
    Role,
    SessionOf,
    SpeakerName,
    TurnOf,
    UnitId,
    UnitKind,
    UnitTime,
    WireModel,
)
from store.off_loop import run_off_loop
from store.recall.printing import describe_directive, describe_unit
from store.recall.query import About, Evidence, Explanation, Recalled

#: Most bytes of a direct answer, and of one that is stored in its job.
MOST_BYTES, MOST_BYTES_OF_JOB = 8_388_608, 2_097_152
#: How often a text is part of an answer: in its result and in the frame.
TIMES_WRITTEN = 2
#: Bytes of the note that something was left out, and of one character in a result and in the frame, escaped in both.
ROOM_FOR_NOTE, LONGEST_CHARACTER = 512, 24
NOTHING: Mapping[str, Any] = MappingProxyType({})


class RecalledUnit(WireModel):
    """One recalled unit; where it is `cut`, its text is a passage."""

    unit_id: UnitId
    kind: UnitKind
    text: str = Field(description="whole text, or the passage that fits best")
    score: float = Field(description="how well it fits the question")
    handle: int = Field(description="number of its line in `reference`: a model that cites [3] means handle 3")
    session_id: SessionOf
    turn_id: TurnOf
    role: Role
    name: SpeakerName
    occurred_at: UnitTime
    arms: list[str] = Field(description="searches that found it")
    confidence: float | None = Field(None, description="confidence of a fact, 0 to 1, where it is known")
    bank: str | None = Field(None, description="bank of the unit, told across banks")
    cut: bool | None = Field(None, description="true where the text is a passage: the unit has the whole")
    former: bool | None = Field(
        None,
        description="true where it no longer holds: its speaker said later what takes its place, a result before it, "
        "or the fact that it states was forgotten",
    )
    times: list[str] | None = Field(
        None,
        description="where the question asks when: days that its text names (`2026-03-02`), or the first and last of "
        "several (`2026-03-02/2026-03-08`), reckoned from when it was said",
    )
    turn_ids: list[str] | None = Field(
        None, description="the caller's own ids of all turns that say it, where they are several"
    )
    explain: Explanation | None = Field(None, description="how the score came about, told with `explain`")


class ReferenceMessage(WireModel):
    """The recalled units as a message for the prompt, framed as untrusted."""

    role: Literal["user"] = Field(description="always `user`: recalled text is data, never an instruction")
    content: str = Field(description="recalled units in a frame, ready for the prompt")


class GatewayFailure(WireModel):
    """The error of a gateway."""

    category: str = Field(description="category of the error")
    http_status: int | None = Field(description="HTTP status that the gateway answered; null: none")


class HandledHit(WireModel):
    """One result of a gateway."""

    id: str | None = Field(description="the gateway's own id")
    text: str = Field(description="text of the result")
    score: float | None = Field(description="the gateway's score")
    session_id: str | None = Field(description="session that it is from, by the gateway's id")
    source_scope: str | None = Field(description="scope in which it was found")
    resource_uri: str | None = Field(description="resource that it is from")
    handle: int = Field(description="number of its line in `reference`")


class GatewayAnswer(WireModel):
    """The results of the gateway, when it was searched."""

    results: list[HandledHit] = Field(description="what the gateway found")
    error: GatewayFailure | None = Field(description="why it found nothing; null: it answered")
    took_ms: float = Field(description="milliseconds of the search")


class EvidenceBlock(WireModel):
    """Whether the answer probably contains evidence: flags for the agent, which filter nothing."""

    top: float | None = Field(description="best score; null: nothing was found")
    on_topic: bool = Field(
        description="whether a result scores as answers do, by what it says itself (settings `recall.evidence.*`)"
    )
    about: About | None = Field(
        description="if the question names one speaker: `other_speaker` if what others said fits better, else `named`"
    )
    understands: str | None = Field(
        None,
        description="the only languages that the sentence model knows, `english` for the bundled one: texts in others "
        "are found by their words; left out: no such limit is known",
    )


class RecallReply(WireModel):
    """Recalled units, and a message ready for a prompt."""

    results: list[RecalledUnit] = Field(description="recalled units, best first")
    reference: ReferenceMessage | None = Field(
        description="the same as a message for the prompt; null: there is nothing to show"
    )
    freshness: Freshness = Field(description="how fresh the bank is")
    tokens: int = Field(
        description="tokens that a prompt pays for `reference`, by the tokenizer of `recall.tokenizer` or an estimate "
        "that is seldom too low"
    )
    took_ms: float = Field(description="milliseconds of the search, without waiting")
    evidence: EvidenceBlock = Field(description="whether the results are likely to answer at all")
    bank_known: bool = Field(description="whether there is such a bank")
    truncated: bool | None = Field(None, description="true where there was no room for all results")
    note: str | None = Field(None, description="what was left out, and how to ask for less")
    directives: list[Directive] | None = Field(None, description="the bank's directives, the highest priority first")
    degraded: list[str] | None = Field(None, description="parts that did not answer")
    unembedded: int | None = Field(
        None, description="how many of the newest texts were searched by words alone: they had no vector in time"
    )
    trace: dict[str, float] | None = Field(None, description="milliseconds by step, told with `explain`")
    gateway: GatewayAnswer | None = Field(None, description="what the gateway found, where it was asked")


class JobTicketAnswer(WireModel):
    """A recall job that was created."""

    job_id: UUID = Field(description="id of the job")
    expires_at: datetime = Field(description="time until which the answer is kept")


class JobFailure(WireModel):
    """The error code of a failed recall job."""

    category: str | None = Field(description="category of the error")


class RecallJobAnswer(WireModel):
    """A recall job."""

    status: Literal["pending", "done", "failed", "expired"] = Field(description="status of the job")
    result: RecallReply | None = Field(None, description="the answer, when it is done")
    error: JobFailure | None = Field(None, description="the error, when it failed")


async def answer_as_json(answer: RecallResult, most_bytes: int) -> bytes:
    """Return the result of `as_json`, computed off the event loop where the texts are long."""
    return await run_off_loop(sum(len(item.text) for item in answer.items), as_json, answer, most_bytes)


def as_json(answer: RecallResult, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the contract's JSON of an answer, with the reference message ready for a prompt.

    An answer of more than `most_bytes` is `truncated`: it holds the best results that fit, or at least the beginning
    of the first.
    """
    found = len(answer.items)
    if sum(_least_bytes(item) for item in answer.items) <= most_bytes:
        whole = _write_answer(answer)
        if len(whole) <= most_bytes:
            return whole
    room = most_bytes - len(_write_answer(replace(answer, items=()))) - ROOM_FOR_NOTE
    kept = _fit_items(answer.items, room, _least_bytes)
    if kept:
        # Most texts need no escapes: then this fits, and each text was serialised once.
        written = _write_answer(replace(answer, items=kept), describe_cut(found, len(kept), most_bytes))
        if len(written) <= most_bytes:
            return written
    kept = _fit_items(kept, room, lambda item: len(_write_answer(replace(answer, items=(item,), gateway=None))))
    if not kept and answer.items:
        first = answer.items[0]
        kept = [replace(first, text=cut_text(first.text, max(0, room) // LONGEST_CHARACTER), cut=True)]
    return _write_answer(replace(answer, items=kept), describe_cut(found, len(kept), most_bytes))


def _least_bytes(item: Recalled) -> int:
    """Return the least bytes of an item: its result and the frame each hold its text, as JSON."""
    return TIMES_WRITTEN * len(item.text)


def _fit_items(items: Sequence[Recalled], room: int, measure: Callable[[Recalled], int]) -> list[Recalled]:
    """Return the first items whose sizes together fit into the room."""
    sizes = accumulate(measure(item) for item in items)
    return [item for item, _ in takewhile(lambda pair: pair[1] <= room, zip(items, sizes, strict=True))]


def describe_cut(
    found: int, kept: int, most_bytes: int, advice: str = "ask for fewer (k) or for less text (max_tokens)"
) -> Mapping[str, Any]:
    """Return the fields `truncated` and `note` of an answer that holds `kept` of the results found."""
    return {"truncated": True, "note": f"{kept} of {found} results: an answer has at most {most_bytes} bytes; {advice}"}


def _write_answer(answer: RecallResult, note: Mapping[str, Any] = NOTHING) -> bytes:
    items = [*map(describe_unit, answer.items), *_describe_hits(answer.gateway)]
    standing = [describe_directive(one) for one in answer.directives]
    value: dict[str, Any] = {
        "results": [_result_json(item, handle, explain=answer.explain) for handle, item in enumerate(answer.items, 1)],
        "reference": frame_message(items, standing, form=answer.form),
        "tokens": answer.tokens,
        "freshness": answer.freshly,
        "took_ms": round(answer.took_ms, 2),
        "evidence": _evidence_json(answer.evidence),
        "bank_known": answer.bank_known,
        **note,
    }
    if answer.directives:
        value["directives"] = [asdict(one) for one in answer.directives]
    if answer.degraded:
        value["degraded"] = list(answer.degraded)
    if answer.unembedded:
        value["unembedded"] = answer.unembedded
    if answer.explain:
        value["trace"] = answer.trace
    if answer.gateway is not None:
        value["gateway"] = _gateway_json(answer.gateway, len(answer.items) + 1)
    return orjson.dumps(value)


def _evidence_json(evidence: Evidence) -> dict[str, Any]:
    """Return the JSON of the flags; `understands` where it is known."""
    flags = asdict(evidence)
    if evidence.understands is None:
        del flags["understands"]
    return flags


def _describe_hits(finding: GatewayFinding | None) -> list[Mapping[str, Any]]:
    """Return a gateway's hits as items of a frame."""
    return [describe_hit(hit) for hit in (finding.hits if finding is not None else ())]


def _gateway_json(finding: GatewayFinding, first: int) -> Mapping[str, Any]:
    """Return the JSON of a gateway's results, whose handles begin with `first`, or of its error."""
    error = None
    if finding.category is not None:
        error = {"category": finding.category, "http_status": finding.status}
    results = [{**asdict(hit), "handle": handle} for handle, hit in enumerate(finding.hits, first)]
    return {"results": results, "error": error, "took_ms": round(finding.took_ms, 2)}


def _result_json(item: Recalled, handle: int, *, explain: bool) -> Mapping[str, Any]:
    result: dict[str, Any] = {
        "unit_id": str(item.unit_id),
        "kind": item.kind,
        "text": item.text,
        "score": item.score,
        "handle": handle,
        "session_id": item.session_name,
        "turn_id": item.turn_name,
        "role": item.role,
        "name": item.name,
        "occurred_at": item.occurred_at,
        "arms": item.arms,
    }
    if item.confidence is not None:
        result["confidence"] = item.confidence
    if item.bank is not None:
        result["bank"] = item.bank
    if item.cut:
        result["cut"] = True
    if item.former:
        result["former"] = True
    if item.times:
        result["times"] = item.times
    if len(item.turn_names) > 1:
        result["turn_ids"] = item.turn_names
    if explain and item.explain is not None:
        result["explain"] = asdict(item.explain)
    return result
