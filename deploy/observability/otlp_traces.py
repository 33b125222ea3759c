"""Traces through OpenTelemetry's SDK, which sends spans in batches by OTLP over HTTP, in the background.

The provider is this module's own and not the process-wide one, through which libraries (FastAPI, the MCP SDK, Redis)
would record paths, statements and error texts.
"""

import os
import socket
import threading
from dataclasses import dataclass
from importlib.metadata import version
from typing import Self

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
from opentelemetry.trace import Tracer

#: How long a stopping process waits until its last spans are sent, in seconds.
LAST_SPANS_S = 2.0


@dataclass(frozen=True, slots=True)
class OtlpTraces:
    """A tracer of one OpenTelemetry provider of its own."""

    provider: TracerProvider

    @classmethod
    def create(cls, endpoint: str, sample_ratio: float | None, service_name: str) -> Self:
        """Return one that sends to a collector; the SDK reads what is '' or None here from OTEL_* variables."""
        sampler = None if sample_ratio is None else ParentBased(TraceIdRatioBased(sample_ratio))
        provider = TracerProvider(sampler=sampler, resource=_describe_process(service_name), shutdown_on_exit=False)
        url = f"{endpoint.rstrip('/')}/v1/traces" if endpoint else None
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(url)))
        return cls(provider)

    @property
    def tracer(self) -> Tracer:
        """The tracer that begins this process's spans."""
        return self.provider.get_tracer("afterturn", version("afterturn"))

    def close(self) -> None:
        """Send the ended spans, within LAST_SPANS_S seconds, and start no more."""
        closing = threading.Thread(target=self.provider.shutdown, name="last spans", daemon=True)
        closing.start()
        closing.join(LAST_SPANS_S)


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
