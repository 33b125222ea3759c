"""Health, readiness and metrics. No key is needed."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from afterturn_client.contract.health import Liveness, Readiness
from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from producers.http.openapi import CallerClass, DescribedAnswer, describe_route
from producers.http.requests import json_response


class HealthCheck(Protocol):
    """The protocol of a check of the service's dependencies."""

    async def ready(self) -> Readiness:
        """Return whether the service can do its work; never raises, and takes a few seconds at most."""
        ...


Metrics = Callable[[], Awaitable[bytes]]


def service_routes(health: HealthCheck, metrics: Metrics) -> APIRouter:
    """Return the routes of the service itself."""
    router = APIRouter(tags=["service"])

    @router.get(
        "/health/live",
        **describe_route(
            "Liveness",
            "Answers while the process is alive; checks nothing else.",
            CallerClass.ANYONE,
            {200: DescribedAnswer("the process is alive", (Liveness,))},
        ),
    )
    async def check_liveness(request: Request) -> Response:
        del request
        return json_response(Liveness())

    @router.get(
        "/health/ready",
        **describe_route(
            "Readiness",
            "Returns failing parts, and why the service is degraded; takes a few seconds at most.",
            CallerClass.ANYONE,
            {
                200: DescribedAnswer("the service is ready or degraded", (Readiness,)),
                503: DescribedAnswer("parts of the service fail", (Readiness,)),
            },
        ),
    )
    async def check_readiness(request: Request) -> Response:
        del request
        found = await health.ready()
        return json_response(found, 503 if found.failing else 200)

    @router.get(
        "/metrics",
        **describe_route(
            "Prometheus metrics",
            "Metrics of all processes of this service. No label names a tenant, unless `metrics.top_tenants` is set.",
            CallerClass.ANYONE,
            {
                200: DescribedAnswer(
                    "the metrics",
                    text='afterturn_http_requests_total{method="POST",route="/api/v1/turns",status="201"} 7.0\n',
                )
            },
        ),
    )
    async def get_metrics(request: Request) -> Response:
        del request
        return Response(await metrics(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    return router
