"""MCP over HTTP: one path for clients of every revision of the protocol, behind the same keys as everything else."""

from fastapi import APIRouter, Request, Response
from starlette.types import Receive, Scope, Send

from producers.http.reading import grant_of
from producers.mcp.server import McpServer
from producers.mcp.switches import ToolSwitches
from producers.service.memory import Memory
from producers.settings import ApiSettings
from store.tenancy.keys import Keys

#: With and without a slash at the end: clients differ, and a redirect would lose the body.
PATHS = ("/mcp", "/mcp/")


class Exchange(Response):
    """The answer to one request of the protocol, which the SDK writes."""

    def __init__(self, server: McpServer, body: bytes) -> None:
        """Answer this body, that was read."""
        super().__init__()
        self._server = server
        self._asked = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        await self._server.serve(self._asked, scope, receive, send)


def mcp_routes(memory: Memory, keys: Keys, settings: ApiSettings) -> APIRouter:
    """Return the routes of MCP."""
    router = APIRouter()
    server = McpServer(memory, ToolSwitches(settings.mcp.tools), settings.max_request_bytes)

    async def exchange(request: Request) -> Response:
        await grant_of(request, keys)
        return Exchange(server, await request.body())

    for path in PATHS:
        router.add_api_route(path, exchange, methods=["POST"], include_in_schema=False, response_class=Response)
    return router
