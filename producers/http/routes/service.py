"""Health, readiness and metrics. No key is needed."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from afterturn_client.contract.health import Liveness, Readiness
from fastapi import Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from producers.http.openapi import CallerClass, DescribedAnswer
from producers.http.operation_router import OperationRouter
from producers.http.requests import json_response


class HealthCheck(Protocol):
    """The protocol of a check of the service's dependencies."""

    async def ready(self) -> Readiness:
        """Return whether the service can do its work; never raises, and takes a few seconds at most."""
        ...


Metrics = Callable[[], Awaitable[bytes]]


def service_routes(health: HealthCheck, metrics: Metrics) -> OperationRouter:
    """Return the routes of the service itself."""
    router = OperationRouter(tags=["service"], access=CallerClass.ANYONE)

    @router.operation(
        "GET /health/live",
        "Liveness",
        "Answers while the process is alive; checks nothing else.",
        "the process is alive",
    )
    async def check_liveness() -> Liveness:
        return Liveness()

    @router.operation(
        "GET /health/ready",
        "Readiness",
        "Returns failing parts, and why the service is degraded; takes a few seconds at most.",
        {200: "the service is ready or degraded", 503: "parts of the service fail"},
        shape=Readiness,
    )
    async def check_readiness() -> Response:
        found = await health.ready()
        return json_response(found, 503 if found.failing else 200)

    @router.operation(
        "GET /metrics",
        "Prometheus metrics",
        "Metrics of all processes of this service. No label names a tenant, unless `metrics.top_tenants` is set.",
        {
            200: DescribedAnswer(
                "the metrics",
                text='afterturn_http_requests_total{method="POST",route="/api/v1/turns",status="201"} 7.0\n',
            )
        },
    )
    async def get_metrics() -> Response:
        return Response(await metrics(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    return router
