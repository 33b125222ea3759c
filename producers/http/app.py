"""The application behind the HTTP API."""

from collections.abc import Sequence

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.routing import Mount

from producers.fair_queue import FairQueue
from producers.http import (
    banks,
    docs,
    erasures,
    knowledge,
    listings,
    mcp,
    memories,
    names,
    operator,
    problems,
    profiles,
    recall,
    service,
    single_memories,
    turns,
    units,
)
from producers.http.middleware import REQUEST_ID, CallMiddleware
from producers.http.openapi import add_components
from producers.http.reading import Authenticator
from producers.plugin.app import PluginApp, StoreOf
from producers.service.auditing import CallRecorder
from producers.service.banks import BankBody, BankChange
from producers.service.corrections import CorrectionBody
from producers.service.erasures import ErasureBody
from producers.service.gateway_calls import AddBody, FlushBody, SearchBody
from producers.service.knowledge import DirectiveBody, DocumentBody, LinkBody
from producers.service.memory import MemoryFacade
from producers.service.operations import NewKeyBody, Operations, QuotaBody, RotateBody
from producers.service.operator_work import DrainBody, JobsBody
from producers.service.recalls import RecallBody, RecallJobBody
from producers.service.single_memories import MemoryBody
from producers.service.turns import BatchBody, TurnBody
from producers.service.wire import WireModel
from producers.settings import ApiSettings, FairnessSettings
from producers.turns.requests import AfterTurnBody, BeforeTurnBody
from store.tenancy.keys import Keys

SUMMARY = "Remembers what agents and people said: durable when a turn ends, at hand when the next begins."
#: What the calls take, for the page that describes them.
BODIES: Sequence[type[WireModel]] = (
    TurnBody,
    BatchBody,
    RecallBody,
    RecallJobBody,
    AddBody,
    FlushBody,
    SearchBody,
    BankBody,
    BankChange,
    ErasureBody,
    CorrectionBody,
    DocumentBody,
    DirectiveBody,
    LinkBody,
    MemoryBody,
    BeforeTurnBody,
    AfterTurnBody,
    NewKeyBody,
    RotateBody,
    QuotaBody,
    DrainBody,
    JobsBody,
)


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
) -> FastAPI:
    """Return the ASGI application: the native API (version 1), the gateway's three calls, health, metrics, docs.

    Every failure is answered as the contract says, with a request id that also stands in the log. No other origin
    is allowed to use it from a browser. Each call is noted by the `recorder`, where there is one, and takes its turn
    in `fair`. `issuers` know the tokens that open MCP beside keys. With `plugin`, the memory plugin's routes are there
    too, for who shows a key.
    """
    app = FastAPI(
        title="Afterturn",
        version="1",
        summary=SUMMARY,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={HTTPException: _answer_unrouted},
        # Its own spans and logs would tell paths, which hold names, and texts of errors; ours are in request_trace.py.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    names.register_name_converter()
    fair = fair or FairQueue(FairnessSettings())
    app.add_middleware(CallMiddleware, settings=settings, fair=fair, recorder=recorder)
    if plugin is not None:
        # Routes are asked one after the other: this one costs the others a look at the path's beginning.
        app.router.routes.append(Mount("/v1", app=PluginApp(plugin, settings, fair)))
    for router in (
        turns.turn_routes(memory, keys),
        recall.recall_routes(memory, keys),
        units.unit_routes(memory, keys),
        erasures.erasure_routes(memory, keys),
        banks.bank_routes(memory, keys),
        listings.listing_routes(memory, keys),
        knowledge.knowledge_routes(memory, keys),
        single_memories.single_memory_routes(memory, keys),
        profiles.profile_routes(memory, keys),
        memories.gateway_routes(memory, keys),
        *((mcp.mcp_routes(memory, issuers or keys, settings),) if settings.mcp.tools.memory.enabled else ()),
        *((operator.operator_routes(operations),) if operations is not None else ()),
        service.service_routes(health, metrics),
        docs.routes(app.title, app.openapi_url or ""),
    ):
        # Included, a router would look for its route three times over; these have nothing to add to their routes.
        app.router.routes += router.routes
    add_components(app, BODIES)
    return app


async def _answer_unrouted(request: Request, error: Exception) -> Response:
    """Answer for the router: no such path, no such method."""
    status = getattr(error, "status_code", 404)
    message = {404: "no such path", 405: "this path does not take this method"}.get(status, "cannot be routed")
    return problems.routing_response(status, message, request.scope[REQUEST_ID], getattr(error, "headers", None))
