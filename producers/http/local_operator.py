"""The operators' routes for a command that serves them to itself: no server, no key, no queue."""

from uuid import UUID

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from producers.http.authentication import OperatorGrant
from producers.http.middleware import ENTER, GRANT
from producers.http.operator_routers import OPERATOR_ROUTERS
from producers.service.operations import Operations
from store.authority import act_as_service
from store.tenancy.call_audit import NO_HOST


class LocalRoutes:
    """An ASGI application of the operators' routes; a failure is raised to its caller.

    Afterwards it knows the route that was called, and the tenant that it was about.
    """

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._scope: Scope = {}

    @property
    def tenant(self) -> UUID:
        """The tenant of the last call; NO_HOST: none."""
        grant = self._scope.get(GRANT)
        return grant.host_id if isinstance(grant, OperatorGrant) else NO_HOST

    def operation(self, method: str) -> str:
        """Return the last call as the audit names it."""
        return f"{method} {getattr(self._scope.get('route'), 'path', 'unrouted')}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        self._scope = scope
        scope[ENTER] = _enter_at_once
        with act_as_service():
            await self._app(scope, receive, send)


async def _enter_at_once(_host: UUID, _weight: int) -> None:
    """Take no slot: this process serves one caller."""


def open_local_routes(operations: Operations) -> LocalRoutes:
    """Return the operators' routes of these operations, for callers that their `keys` know."""
    app = FastAPI(
        openapi_url=None, telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
    )
    app.state.operations, app.state.console = operations, None
    app.router.routes += [route for router in OPERATOR_ROUTERS for route in router.routes]
    return LocalRoutes(app)
