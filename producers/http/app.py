"""The application behind the HTTP API."""

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.routing import Mount

from producers.console.pages import PAGE as CONSOLE_PAGE
from producers.console.pages import console_routes
from producers.fair_queue import FairQueue
from producers.http.authentication import Authenticator
from producers.http.error_responses import routing_response
from producers.http.middleware import REQUEST_ID, CallMiddleware
from producers.http.openapi import complete_description
from producers.http.operator_routers import OPERATOR_ROUTERS
from producers.http.routes import (
    banks,
    commands,
    console,
    documentation,
    erasures,
    gateway,
    graph,
    knowledge,
    lists,
    mcp,
    memories,
    recall,
    service,
    turns,
    units,
)
from producers.plugin.app import PluginApp, StoreOf
from producers.service.auditing import CallRecorder
from producers.service.memory import MemoryFacade
from producers.service.operations import Operations
from producers.settings import ApiSettings, FairnessSettings
from store.tenancy.console_sessions import ConsoleSessions
from store.tenancy.keys import Keys

SUMMARY = "Remembers what agents and people said: durable when a turn ends, at hand when the next begins."


def create_app(
    memory: MemoryFacade,
    keys: Keys,
    health: service.HealthCheck,
    metrics: service.Metrics,
    settings: ApiSettings,
    *,
    recorder: CallRecorder | None = None,
    fair: FairQueue | None = None,
    operations: Operations | None = None,
    issuers: Authenticator | None = None,
    plugin: StoreOf | None = None,
    sessions: ConsoleSessions | None = None,
) -> FastAPI:
    """Return the ASGI application: the native API (version 1), the gateway's three calls, health, metrics, docs.

    Every failure is answered as the contract says, with a request id that is also in the log. Browsers may not use it
    from other origins. The `recorder`, if there is one, records each call; `fair` schedules the calls of tenants.
    `issuers` accept tokens beside keys. With `plugin`, it also serves the memory plugin's routes, for callers
    with a key; with `sessions`, the console.
    """
    app = FastAPI(
        title="Afterturn",
        version="1",
        summary=SUMMARY,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={HTTPException: _answer_unrouted},
        # FastAPI's own spans and logs would record paths (with names) and error texts; ours are in request_trace.py.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    accepted = issuers or keys
    app.state.memory, app.state.keys, app.state.operations = memory, accepted, operations
    app.state.console = sessions
    fair = fair or FairQueue(FairnessSettings())
    app.add_middleware(CallMiddleware, settings=settings, fair=fair, recorder=recorder)
    if plugin is not None:
        # Routes are tried in order; this one costs the others only a comparison of the path's beginning.
        app.router.routes.append(Mount("/v1", app=PluginApp(plugin, settings, fair, clock=memory.clock)))
    for router in (
        *(
            module.router
            for module in (turns, recall, units, erasures, banks, lists, knowledge, graph, memories, commands, gateway)
        ),
        *((mcp.mcp_routes(memory, accepted, settings),) if settings.mcp.tools.memory.enabled else ()),
        *(OPERATOR_ROUTERS if operations is not None else ()),
        service.service_routes(health, metrics),
        *((console.router, console_routes()) if sessions is not None else ()),
        documentation.page_routes(app.title, app.openapi_url or "", home="/docs" if sessions is None else CONSOLE_PAGE),
    ):
        # Its routes are added directly, because an included router would search for a route three times.
        app.router.routes += router.routes
    complete_description(app)
    return app


async def _answer_unrouted(request: Request, error: Exception) -> Response:
    """Return the answer to a request that no route fits: unknown path, or method not allowed."""
    status = getattr(error, "status_code", 404)
    known = {404: "no such path; /docs describes those there are", 405: "this path does not take this method"}
    message = known.get(status, "cannot be routed")
    return routing_response(status, message, request.scope[REQUEST_ID], getattr(error, "headers", None))
