"""Propagates an agent's OpenTelemetry trace to the service."""

import sys
from typing import Any


def current_traceparent() -> str | None:
    """Return the W3C traceparent of the current span; None where there is none.

    OpenTelemetry is not imported for this: an agent that traces its work has imported it.
    """
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None or not hasattr(trace, "get_current_span"):
        return None
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 1:02x}"
