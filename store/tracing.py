"""Traces: spans around requests and stages where tracing is on (deploy/observability/tracing.py), else nothing at all.

A span holds ids, names of operations and stages, counts and classes of errors: never content, never a name that a
caller chose. This module imports no tracing library; `install_tracer` gets one.
"""

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import Protocol

Attribute = str | bool | int | float

#: A W3C traceparent of any version that may be read: version, trace id, parent id, flags, and what later versions add.
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
#: Length of a traceparent of version 00, the one that is written.
TRACEPARENT_LENGTH = 55


class SpanRole(StrEnum):
    """The kind of a span, as OpenTelemetry names it."""

    SERVER = "server"
    CLIENT = "client"
    CONSUMER = "consumer"
    INTERNAL = "internal"


class TraceSpan(Protocol):
    """One operation of a trace."""

    @property
    def traceparent(self) -> str | None:
        """The traceparent to continue the trace elsewhere (W3C, version 00); None where the trace is not sampled."""
        ...

    def note(self, attributes: Mapping[str, Attribute], name: str | None = None) -> None:
        """Add attributes; `name` is a better one for the span."""
        ...

    def fail(self, error_type: str) -> None:
        """Mark the operation as failed, with an error's class or code, never its text."""
        ...

    def end(self) -> None:
        """End the span."""
        ...


class Tracer(Protocol):
    """The protocol of a tracing library: begins spans."""

    def start(
        self,
        name: str,
        kind: SpanRole,
        parent: TraceSpan | str | None,
        links: Sequence[str],
        attributes: Mapping[str, Attribute],
    ) -> TraceSpan:
        """Begin a span below another or a traceparent, or a new trace; `links` are traceparents it belongs with."""
        ...


class NoSpan:
    """A span that records nothing, for operations that are not traced."""

    traceparent: None = None

    def note(self, attributes: Mapping[str, Attribute], name: str | None = None) -> None:
        """Do nothing."""

    def fail(self, error_type: str) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""


NO_SPAN = NoSpan()
_CURRENT: ContextVar[TraceSpan | None] = ContextVar("span", default=None)


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
    span = _CURRENT.get()
    return None if span is None or not is_tracing() else span.traceparent


def current_span() -> TraceSpan:
    """Return the current span; where there is none, a span that records nothing."""
    return _CURRENT.get() or NO_SPAN


def start_span(
    name: str,
    attributes: Mapping[str, Attribute],
    *,
    kind: SpanRole,
    parent: str | None = None,
    links: Sequence[str] = (),
) -> TraceSpan:
    """Begin a span below `parent`, else below the current span, without making it the current one.

    A server or a consumer without either begins a trace; any other operation is then not traced.
    """
    tracer, above = _Installed.tracer, _CURRENT.get()
    begins = above is None and kind in {SpanRole.SERVER, SpanRole.CONSUMER}
    if tracer is None or not (begins or parent or (above is not None and above.traceparent)):
        return NO_SPAN
    return tracer.start(name, kind, parent or above, links, attributes)


@contextmanager
def enter_span(span: TraceSpan) -> Generator[TraceSpan]:
    """Make a span the current one; it ends with the block, as failed with the exception's class if the block raises."""
    token = _CURRENT.set(span)
    try:
        yield span
    except BaseException as error:
        span.fail(type(error).__name__)
        raise
    finally:
        _CURRENT.reset(token)
        span.end()


@contextmanager
def trace_operation(
    name: str,
    attributes: Mapping[str, Attribute] | None = None,
    *,
    kind: SpanRole = SpanRole.INTERNAL,
    parent: str | None = None,
) -> Generator[TraceSpan]:
    """Trace a block by a span, begun like `start_span`; the block's operations are its children."""
    if not is_tracing():
        yield NO_SPAN
        return
    with enter_span(start_span(name, attributes or {}, kind=kind, parent=parent)) as span:
        yield span
