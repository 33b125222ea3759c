"""Traces through OpenTelemetry's SDK, which sends spans in batches by OTLP over HTTP, in the background.

The provider is this module's own and not the process-wide one, through which libraries (FastAPI, the MCP SDK, Redis)
would record paths, statements and error texts.
"""

import os
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Self

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import (
    SERVICE_INSTANCE_ID,
    SERVICE_NAME,
    SERVICE_VERSION,
    OTELResourceDetector,
    Resource,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)
from opentelemetry.trace import Span as OtelSpan

from store.tracing import Attribute, SpanRole, TraceSpan

#: How long a stopping process waits until its last spans are sent, in seconds.
LAST_SPANS_S = 2.0
KINDS: Mapping[SpanRole, SpanKind] = {
    SpanRole.SERVER: SpanKind.SERVER,
    SpanRole.CLIENT: SpanKind.CLIENT,
    SpanRole.CONSUMER: SpanKind.CONSUMER,
    SpanRole.INTERNAL: SpanKind.INTERNAL,
}


@dataclass(frozen=True, slots=True)
class _Span:
    """A trace span that wraps one of the SDK."""

    otel: OtelSpan

    @property
    def traceparent(self) -> str | None:
        context = self.otel.get_span_context()
        if not (context.is_valid and context.trace_flags.sampled):
            return None
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-01"

    def note(self, attributes: Mapping[str, Attribute], name: str | None = None) -> None:
        self.otel.set_attributes(attributes)
        if name is not None:
            self.otel.update_name(name)

    def fail(self, error_type: str) -> None:
        self.otel.set_attribute("error.type", error_type)
        self.otel.set_status(Status(StatusCode.ERROR))

    def end(self) -> None:
        self.otel.end()


class OtlpTraces:
    """A `store.tracing.Tracer` that starts spans of one OpenTelemetry provider."""

    def __init__(self, provider: TracerProvider) -> None:
        """Start spans of this provider, which `close` shuts down."""
        self._provider = provider
        self._tracer = provider.get_tracer("afterturn", version("afterturn"))

    @classmethod
    def create(cls, endpoint: str, sample_ratio: float | None, service_name: str) -> Self:
        """Return a tracer that sends to a collector; the SDK reads what is '' or None here from OTEL_* variables."""
        sampler = None if sample_ratio is None else ParentBased(TraceIdRatioBased(sample_ratio))
        provider = TracerProvider(sampler=sampler, resource=_describe_process(service_name), shutdown_on_exit=False)
        url = f"{endpoint.rstrip('/')}/v1/traces" if endpoint else None
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(url)))
        return cls(provider)

    def start(
        self,
        name: str,
        kind: SpanRole,
        parent: TraceSpan | str | None,
        links: Sequence[str],
        attributes: Mapping[str, Attribute],
    ) -> TraceSpan:
        """Start a span, as `store.tracing.Tracer` specifies."""
        return _Span(
            self._tracer.start_span(
                name,
                context=_build_context(parent),
                kind=KINDS[kind],
                attributes=attributes,
                links=[Link(_read_context(link)) for link in links],
                record_exception=False,
                set_status_on_exception=False,
            )
        )

    def close(self) -> None:
        """Send the ended spans, within LAST_SPANS_S seconds, and start no more."""
        closing = threading.Thread(target=self._provider.shutdown, name="last spans", daemon=True)
        closing.start()
        closing.join(LAST_SPANS_S)


def _build_context(parent: TraceSpan | str | None) -> Context:
    """Return the context of a new span; never the ambient one, which may hold libraries' spans."""
    if isinstance(parent, str):
        return set_span_in_context(NonRecordingSpan(_read_context(parent)), Context())
    return set_span_in_context(parent.otel, Context()) if isinstance(parent, _Span) else Context()


def _read_context(traceparent: str) -> SpanContext:
    _, trace, span, flags = traceparent.split("-")
    return SpanContext(int(trace, 16), int(span, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16) & 1))


def _describe_process(service_name: str) -> Resource:
    """Return the resource that names this process: by the settings, else by OTEL_* variables, else by our defaults."""
    ours = Resource(
        {
            SERVICE_NAME: "afterturn",
            SERVICE_VERSION: version("afterturn"),
            SERVICE_INSTANCE_ID: f"{socket.gethostname()}:{os.getpid()}",
        }
    )
    named = ours.merge(OTELResourceDetector().detect())
    return named.merge(Resource({SERVICE_NAME: service_name})) if service_name else named
