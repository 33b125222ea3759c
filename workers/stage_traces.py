"""Spans of a piece of work: one for each row, in the trace of the request that brought its turn."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID

import structlog
from opentelemetry.trace import Span, SpanKind

from store.ledger.ledger import Claim, Ledger, LedgerRow, Outcome, public_status
from store.tracing import Attribute, enter_span, fail_span, is_tracing, start_span, traceparent_of

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WorkSpans:
    """The spans of a piece of work by item id; untraced turns have none."""

    of: Mapping[UUID, Span] = field(default_factory=dict)

    def note_outcomes(self, outcomes: Sequence[Outcome]) -> None:
        """Record in the spans how the rows ended, or that they are tried again."""
        for outcome in outcomes:
            if (span := self.of.get(outcome.item_id)) is not None:
                ended = "retried" if outcome.retry_in is not None else public_status(outcome.status)
                span.set_attribute("afterturn.outcome", ended)


@asynccontextmanager
async def trace_work(ledger: Ledger, claims: Sequence[Claim]) -> AsyncGenerator[WorkSpans]:
    """Trace the work on claims of one stage, where tracing is on: one span a traced row.

    Spans of work done for all rows together are children of the first traced row's span; it and the others' spans
    link to each other.
    """
    kept = await _read_traceparents(ledger, claims) if is_tracing() else {}
    traced = [(claim, row, kept[row.item_id]) for claim in claims for row in claim.rows if row.item_id in kept]
    if not traced:
        yield WorkSpans()
        return
    (claim, row, parent), *others = traced
    lead = _start_span(claim, row, parent, list(dict.fromkeys(link for _, _, link in others if link != parent)))
    linked = [link] if (link := traceparent_of(lead)) else []
    spans = {row.item_id: lead} | {
        row.item_id: _start_span(claim, row, parent, linked) for claim, row, parent in others
    }
    rest = list(spans.values())[1:]
    try:
        with enter_span(lead):
            yield WorkSpans(spans)
    except BaseException as error:
        for span in rest:
            fail_span(span, type(error).__name__)
        raise
    finally:
        for span in rest:
            span.end()


def _start_span(claim: Claim, row: LedgerRow, parent: str, links: Sequence[str]) -> Span:
    named: dict[str, Attribute] = {
        "afterturn.stage": claim.stage.value,
        "afterturn.attempt": row.attempts,
        "afterturn.tenant.id": str(claim.host_id),
        "afterturn.project.id": str(row.bank_id),
        "afterturn.session.id": str(row.session_id),
        "afterturn.turn.id": str(row.turn_id),
    }
    return start_span(f"process {claim.stage.value}", named, kind=SpanKind.CONSUMER, parent=parent, links=links)


async def _read_traceparents(ledger: Ledger, claims: Sequence[Claim]) -> Mapping[UUID, str]:
    """Return the stored traceparents by item id; nothing when they cannot be read, since work goes on without."""
    try:
        return await ledger.read_traceparents(claims)
    except Exception as error:  # noqa: BLE001 - an error of any kind: the work itself meets it, too
        log.warning("traceparents_not_read", error=type(error).__name__)
        return {}
