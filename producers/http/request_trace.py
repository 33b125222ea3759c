"""The trace span of a request: operation, tenant, ids and status; never content."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from opentelemetry.trace import INVALID_SPAN, Span, SpanKind
from starlette.types import Scope

from store.tenancy.keys import Grant
from store.tracing import (
    Attribute,
    current_span,
    fail_span,
    is_tracing,
    read_traceparent,
    trace_operation,
)

#: The first status of an answer that says the service failed.
FAILED = 500


def trace_request(scope: Scope) -> AbstractContextManager[Span]:
    """Trace a request, within the trace of its `traceparent` header, if it has one."""
    if not is_tracing():
        return nullcontext(INVALID_SPAN)
    given = next((value for name, value in scope["headers"] if name == b"traceparent"), b"")
    parent = read_traceparent(given.decode("latin-1").strip())
    return trace_operation("request", kind=SpanKind.SERVER, parent=parent)


def describe_request(told: Mapping[str, object], grant: Grant | None, failure: str | None = None) -> None:
    """Record the request's log fields in its span; `failure`: the code or class of a failure."""
    if not is_tracing():
        return
    method, route, status = str(told["method"]), str(told["route"]), int(str(told["status"]))
    named: dict[str, Attribute] = {
        "http.request.method": method,
        "http.route": route,
        "http.response.status_code": status,
    }
    ids = {"request_id": "request", "project": "project", "session": "session", "turn": "turn"}
    named |= {f"afterturn.{name}.id": str(told[key]) for key, name in ids.items() if key in told}
    if grant is not None:
        named["afterturn.tenant.id"] = str(grant.host_id)
    span = current_span()
    span.set_attributes(named)
    span.update_name(f"{method} {route}")
    if status >= FAILED:
        fail_span(span, failure or str(status))
