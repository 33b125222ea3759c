"""Traces: spans around requests and stages where tracing is on (deploy/observability/tracing.py), else nothing at all.

A span holds ids, names of operations and stages, counts and classes of errors: never content, never a name that a
caller chose. Spans, kinds and links are those of OpenTelemetry's API; its SDK is imported where tracing is on. The
current span is kept here and not in OpenTelemetry's context, so that libraries begin no spans below it.
"""

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from opentelemetry.context import Context
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)

Attribute = str | bool | int | float

#: A W3C traceparent of any version that may be read: version, trace id, parent id, flags, and what later versions add.
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
#: Length of a traceparent of version 00, the one that is written.
TRACEPARENT_LENGTH = 55


_CURRENT: ContextVar[Span | None] = ContextVar("span", default=None)


class _Installed:
    """The holder of this process's tracer."""

    tracer: Tracer | None = None


def install_tracer(tracer: Tracer | None) -> None:
    """Turn tracing on for this process with this tracer; with None turn it off."""
    _Installed.tracer = tracer


def is_tracing() -> bool:
    """Return whether tracing is on in this process."""
    return _Installed.tracer is not None


def read_traceparent(value: object) -> str | None:
    """Return a caller's traceparent in the form of version 00; None for an invalid one, which begins a new trace."""
    if not isinstance(value, str) or not _TRACEPARENT.fullmatch(value):
        return None
    return None if value.startswith("00") and len(value) != TRACEPARENT_LENGTH else f"00{value[2:TRACEPARENT_LENGTH]}"


def current_traceparent() -> str | None:
    """Return the traceparent of the current trace; None where tracing is off or the trace is not sampled."""
    return traceparent_of(current_span()) if is_tracing() else None


def traceparent_of(span: Span) -> str | None:
    """Return the traceparent to continue a span's trace elsewhere (W3C, version 00); None where it is not sampled."""
    found = span.get_span_context()
    if not (found.is_valid and found.trace_flags.sampled):
        return None
    return f"00-{found.trace_id:032x}-{found.span_id:016x}-01"


def current_span() -> Span:
    """Return the current span; where there is none, a span that records nothing."""
    return _CURRENT.get() or INVALID_SPAN


def fail_span(span: Span, error_type: str) -> None:
    """Mark a span's operation as failed, with an error's class or code, never its text."""
    span.set_attribute("error.type", error_type)
    span.set_status(Status(StatusCode.ERROR))


def start_span(
    name: str,
    attributes: Mapping[str, Attribute],
    *,
    kind: SpanKind,
    parent: str | None = None,
    links: Sequence[str] = (),
) -> Span:
    """Begin a span below `parent`, else below the current span, without making it the current one.

    `parent` and `links` are traceparents. A server or a consumer without a parent begins a trace; any other operation
    is then not traced.
    """
    tracer, above = _Installed.tracer, _CURRENT.get()
    begins = above is None and kind in {SpanKind.SERVER, SpanKind.CONSUMER}
    if tracer is None or not (begins or parent or (above is not None and traceparent_of(above))):
        return INVALID_SPAN
    # Never the ambient context, which may hold libraries' spans.
    below = above if parent is None else NonRecordingSpan(_read_context(parent))
    return tracer.start_span(
        name,
        Context() if below is None else set_span_in_context(below, Context()),
        kind,
        attributes,
        [Link(_read_context(link)) for link in links],
        record_exception=False,
        set_status_on_exception=False,
    )


def _read_context(traceparent: str) -> SpanContext:
    _, trace, span, flags = traceparent.split("-")
    return SpanContext(int(trace, 16), int(span, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16) & 1))


@contextmanager
def enter_span(span: Span) -> Generator[Span]:
    """Make a span the current one; it ends with the block, as failed with the exception's class if the block raises."""
    token = _CURRENT.set(span)
    try:
        yield span
    except BaseException as error:
        fail_span(span, type(error).__name__)
        raise
    finally:
        _CURRENT.reset(token)
        span.end()


@contextmanager
def trace_operation(
    name: str,
    attributes: Mapping[str, Attribute] | None = None,
    *,
    kind: SpanKind = SpanKind.INTERNAL,
    parent: str | None = None,
) -> Generator[Span]:
    """Trace a block by a span, begun like `start_span`; the block's operations are its children."""
    if not is_tracing():
        yield INVALID_SPAN
        return
    with enter_span(start_span(name, attributes or {}, kind=kind, parent=parent)) as span:
        yield span
