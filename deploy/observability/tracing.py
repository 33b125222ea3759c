"""Enables tracing in this process; its libraries are imported only then."""

import importlib.util
from collections.abc import Callable
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from embeddings.settings_section import SettingsSection
from store.tracing import install_tracer

#: Packages of the extra `otel` that must be installed.
PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
MISSING = (
    "tracing.enabled needs packages that are not installed: "
    'pip install --find-links wheels "afterturn[otel]", or set it to false (AFTERTURN_TRACING__ENABLED)'
)


class TracingSettings(SettingsSection):
    """Traces of requests and stages, sent to a collector by OTLP over HTTP; ids only, never content."""

    enabled: bool = Field(
        default=False,
        description="send traces to an OpenTelemetry collector; needs the packages of afterturn[otel]; set it alike "
        "for API and workers, since one trace leads from a request to its last stage",
    )
    endpoint: str = Field(
        default="",
        description="URL of the collector, to which /v1/traces is appended; empty: "
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT, else http://localhost:4318; "
        "headers, TLS and time-outs: OTEL_EXPORTER_OTLP_*",
    )
    sample_ratio: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="share (0 to 1) of the traces begun here that are sent; a request that is part of a trace is "
        "sampled as that trace is; null: OTEL_TRACES_SAMPLER, else all; lower it where many turns come "
        "in",
    )
    service_name: str = Field(
        default="",
        description="name of this service in traces; empty: OTEL_SERVICE_NAME, else afterturn; set it to tell "
        "several installations apart",
    )

    @field_validator("endpoint")
    @classmethod
    def _is_address(cls, url: str) -> str:
        parts = urlsplit(url)
        if url and (parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc):
            raise ValueError(
                "must be http://host:port or https://..., credentials belong into OTEL_EXPORTER_OTLP_HEADERS"
            )
        return url


def find_missing_packages(settings: TracingSettings) -> str:
    """Return why tracing cannot be enabled although the settings ask for it, with the next step; else ''."""
    return MISSING if settings.enabled and not all(map(_is_installed, PACKAGES)) else ""


def start_tracing(settings: TracingSettings) -> Callable[[], None]:
    """Enable tracing in this process if the settings ask for it; return a function that sends the last spans and stops.

    Raises ImportError where packages are missing.
    """
    if not settings.enabled:
        return _do_nothing
    # Imported only now: a process without tracing needs none of these packages.
    from deploy.observability.otlp_traces import OtlpTraces  # noqa: PLC0415

    traces = OtlpTraces.create(settings.endpoint, settings.sample_ratio, settings.service_name)
    install_tracer(traces.tracer)

    def stop() -> None:
        install_tracer(None)
        traces.close()

    return stop


def _do_nothing() -> None:
    return


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False
