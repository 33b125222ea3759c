"""How an answer to a question looks: JSON as the contract writes it, and the message that is ready for a prompt."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import orjson

from producers.framing import ReferenceDirective, ReferenceItem, frame
from producers.gateway_recall import GatewayFinding
from producers.recalls import Answer, Freshly
from store.recall.query import Recalled

#: What a frame says of a directive that does not tell who laid it down: it came with events from elsewhere.
UNKNOWN = "unknown"


def as_json(answer: Answer) -> bytes:
    """Return the answer as the contract writes it, with the reference message ready for a prompt."""
    items = [reference_item(item) for item in answer.items]
    standing = [ReferenceDirective(one.name, one.content, one.laid_down_by or UNKNOWN) for one in answer.directives]
    value: dict[str, Any] = {
        "results": [_result(item, explain=answer.explain) for item in answer.items],
        "reference": frame([*items, *_from_gateway(answer.gateway)], standing),
        "freshness": freshness_json(answer.freshly),
        "took_ms": answer.took_ms,
    }
    if answer.directives:
        value["directives"] = [asdict(one) for one in answer.directives]
    if answer.degraded:
        value["degraded"] = list(answer.degraded)
    if answer.explain:
        value["trace"] = answer.trace
    if answer.gateway is not None:
        value["gateway"] = _gateway_json(answer.gateway)
    return orjson.dumps(value)


def freshness_json(freshly: Freshly) -> dict[str, Any]:
    """Return the freshness block."""
    return {**asdict(freshly.freshness), "waited_ms": freshly.waited_ms, "met": freshly.met}


def reference_item(item: Recalled) -> ReferenceItem:
    """Return a recalled unit as an agent is shown it."""
    return ReferenceItem(
        id=str(item.unit_id),
        text=item.text,
        score=item.score,
        session=item.session_id,
        turn=item.turn_id,
        role=item.role,
        name=item.name,
        time=item.occurred_at,
        confidence=item.confidence,
    )


def _from_gateway(finding: GatewayFinding | None) -> list[ReferenceItem]:
    hits = finding.hits if finding is not None else ()
    return [
        ReferenceItem(
            id=hit.id,
            text=hit.text,
            score=hit.score,
            session=hit.session_id,
            source_scope=hit.source_scope,
            resource_uri=hit.resource_uri,
        )
        for hit in hits
    ]


def _gateway_json(finding: GatewayFinding) -> Mapping[str, Any]:
    """Return what a gateway found, or the note that says why it found nothing."""
    error = None
    if finding.category is not None:
        error = {"category": finding.category, "http_status": finding.status}
    return {"results": [asdict(hit) for hit in finding.hits], "error": error, "took_ms": finding.took_ms}


def _result(item: Recalled, *, explain: bool) -> Mapping[str, Any]:
    result: dict[str, Any] = {
        "unit_id": str(item.unit_id),
        "kind": item.kind,
        "text": item.text,
        "score": item.score,
        "session_id": item.session_id,
        "turn_id": item.turn_id,
        "role": item.role,
        "name": item.name,
        "occurred_at": item.occurred_at,
        "arms": item.arms,
    }
    if item.confidence is not None:
        result["confidence"] = item.confidence
    if item.bank is not None:
        result["bank"] = item.bank
    if len(item.turn_ids) > 1:
        result["turn_ids"] = item.turn_ids
    if explain and item.explain is not None:
        result["explain"] = asdict(item.explain)
    return result
