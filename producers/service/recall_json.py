"""Serialises recall's answers: the contract's JSON, and a message ready for a prompt."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import accumulate, takewhile
from types import MappingProxyType
from typing import Any

import orjson
from afterturn_client.contract.recall import Evidence, GatewayError, GatewayResult, GatewayResults
from afterturn_client.reference import cut_text

from producers.service.framing import frame_message
from producers.service.gateway_recall import GatewayFinding, describe_hit
from producers.service.recall_coordinator import RecallResult
from store.off_loop import run_off_loop
from store.recall.printing import describe_directive, tell_unit
from store.recall.query import Recalled

#: Most bytes of a direct answer, and of one that is stored in its job.
MOST_BYTES, MOST_BYTES_OF_JOB = 8_388_608, 2_097_152
#: How often a text is part of an answer: in its result and in the frame.
TIMES_WRITTEN = 2
#: Bytes of the note that something was left out, and of one character in a result and in the frame, escaped in both.
ROOM_FOR_NOTE, LONGEST_CHARACTER = 512, 24
NOTHING: Mapping[str, Any] = MappingProxyType({})


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
    items = [*(tell_unit(item, answer.form) for item in answer.items), *_describe_hits(answer.gateway)]
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
        value["directives"] = answer.directives
    if answer.degraded:
        value["degraded"] = list(answer.degraded)
    if answer.unembedded:
        value["unembedded"] = answer.unembedded
    if answer.explain:
        value["trace"] = answer.trace
    if answer.gateway is not None:
        value["gateway"] = _describe_finding(answer.gateway, len(answer.items) + 1)
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


def _describe_finding(finding: GatewayFinding, first: int) -> GatewayResults:
    """Return a gateway's results, whose handles begin with `first`, or its error."""
    failed = finding.category and GatewayError(category=finding.category, http_status=finding.status)
    results = tuple(GatewayResult(**asdict(hit), handle=handle) for handle, hit in enumerate(finding.hits, first))
    return GatewayResults(results=results, error=failed or None, took_ms=round(finding.took_ms, 2))


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
        result["explain"] = item.explain
    return result
