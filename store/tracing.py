"""Traces: spans around requests and stages where tracing is on (deploy/observability/tracing.py), else nothing at all.

A span holds ids, names of operations and stages, counts and classes of errors: never what was said, never a name that a
caller chose. This module imports no library of traces; who turns tracing on hands one in.
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
    """What a span is to the spans around it."""

    SERVER = "server"
    CLIENT = "client"
    CONSUMER = "consumer"
    INTERNAL = "internal"


class TraceSpan(Protocol):
    """One operation of a trace."""

    @property
    def traceparent(self) -> str | None:
        """What continues the trace elsewhere (W3C, version 00, sampled); None where the trace is not sampled."""
        ...

    def note(self, attributes: Mapping[str, Attribute], name: str | None = None) -> None:
        """Add attributes; `name` is a better one for the span."""
        ...

    def fail(self, error_type: str) -> None:
        """Say that the operation failed: a class or a code, no text."""
        ...

    def end(self) -> None:
        """Say that the operation ended."""
        ...


class Tracer(Protocol):
    """Begins spans."""

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
    """Stands where nothing is traced."""

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
    """The tracer of this process."""

    tracer: Tracer | None = None


def install_tracer(tracer: Tracer | None) -> None:
    """Turn tracing on for this process, or with None off."""
    _Installed.tracer = tracer


def is_tracing() -> bool:
    """Say whether tracing is on in this process."""
    return _Installed.tracer is not None


def read_traceparent(value: object) -> str | None:
    """Return a caller's traceparent as version 00 has it, None for anything else: a wrong one begins a new trace."""
    if not isinstance(value, str) or not _TRACEPARENT.fullmatch(value):
        return None
    return None if value.startswith("00") and len(value) != TRACEPARENT_LENGTH else f"00{value[2:TRACEPARENT_LENGTH]}"


def current_traceparent() -> str | None:
    """Return what continues the current trace elsewhere; None where tracing is off or the trace is not sampled."""
    span = _CURRENT.get()
    return None if span is None or not is_tracing() else span.traceparent


def current_span() -> TraceSpan:
    """Return the current span; where there is none, what may be told everything and does nothing."""
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
    """Make a span the current one; it ends with the block, which says how: an exception's class, and nothing else."""
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
    links: Sequence[str] = (),
) -> Generator[TraceSpan]:
    """Trace a block as a span, begun as `start_span` does; the block's operations are below it."""
    if not is_tracing():
        yield NO_SPAN
        return
    with enter_span(start_span(name, attributes or {}, kind=kind, parent=parent, links=links)) as span:
        yield span
