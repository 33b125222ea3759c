"""What operators and their machines ask: does it live, is it ready, what does it count. No key is needed."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from producers.http.openapi import describe_route
from producers.http.reading import json_response


@dataclass(frozen=True, slots=True)
class Readiness:
    """`failing`: parts that cannot do their work, with the reason; `degraded`: what is not as it should be."""

    failing: Mapping[str, str] = field(default_factory=dict)
    degraded: Sequence[str] = ()

    @property
    def status(self) -> str:
        """One word for it: ready, degraded or failing."""
        return "failing" if self.failing else "degraded" if self.degraded else "ready"


class Health(Protocol):
    """Looks at what the service stands on."""

    async def ready(self) -> Readiness:
        """Say whether the service can do its work; never raises, never takes longer than seconds."""
        ...


Metrics = Callable[[], Awaitable[bytes]]


def service_routes(health: Health, metrics: Metrics) -> APIRouter:
    """Return the routes of the service itself."""
    router = APIRouter(tags=["service"])

    @router.get("/health/live", **describe_route("Whether the process lives", key=False))
    async def live(request: Request) -> Response:
        del request
        return json_response({"status": "live"})

    @router.get("/health/ready", **describe_route("Whether it can do its work", key=False))
    async def ready(request: Request) -> Response:
        del request
        found = await health.ready()
        body = {"status": found.status, "failing": found.failing, "reasons": list(found.degraded)}
        return json_response(body, 503 if found.failing else 200)

    @router.get("/metrics", **describe_route("Prometheus text", key=False))
    async def scrape(request: Request) -> Response:
        del request
        return Response(await metrics(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    return router
