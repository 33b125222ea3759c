"""MCP over HTTP: one path for clients of every revision of the protocol, behind the same keys as everything else.

Where issuers of tokens are set, it accepts their tokens, too, and tells clients where to get one (RFC 9728).
"""

from urllib.parse import urlsplit

from afterturn_client.oversized import ENDS, Oversized, identify_message
from fastapi import APIRouter, Request, Response
from starlette.types import Receive, Scope, Send

from producers.errors import InsufficientScope, Invalid, TooLarge, Unauthenticated
from producers.http.authentication import Authenticator, authenticate_and_queue
from producers.http.middleware import TOOL
from producers.http.requests import json_response
from producers.mcp.server import McpServer, refuse_oversized, refuse_request
from producers.mcp.settings import McpSettings
from producers.mcp.switches import ToolSwitches
from producers.service.json_values import limit_json
from producers.service.memory import MemoryFacade
from producers.settings import ApiSettings

#: With and without a slash at the end: clients differ, and a redirect would lose the body.
PATHS = ("/mcp", "/mcp/")
#: Path prefix of the metadata of a protected resource; the path of the resource follows.
WELL_KNOWN = "/.well-known/oauth-protected-resource"


class Exchange(Response):
    """The response to one request of the protocol, which the SDK writes."""

    def __init__(self, server: McpServer, body: bytes) -> None:
        """Keep the server and the body, which is read already."""
        super().__init__()
        self._server = server
        self._asked = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the SDK answer the request."""
        await self._server.serve(self._asked, scope, receive, send)


def mcp_routes(memory: MemoryFacade, keys: Authenticator, settings: ApiSettings) -> APIRouter:
    """Return the routes of MCP; `keys` know the tokens of issuers, where any are set."""
    router = APIRouter()
    server = McpServer(memory, ToolSwitches(settings.mcp.tools), settings.max_request_bytes)

    async def exchange_messages(request: Request) -> Response:
        try:
            await authenticate_and_queue(request, keys)
        except (Unauthenticated, InsufficientScope) as error:
            raise _name_issuers(error, request, settings.mcp) from None
        body = await _read_message(request, settings.max_request_bytes)
        if isinstance(body, Oversized):
            return _refuse_oversized(request, body, settings.max_request_bytes)
        try:
            await limit_json(body)
        except Invalid as refusal:
            # As the protocol says it, since its own parser has not seen the body.
            return json_response(refuse_request(str(refusal)), 400)
        return Exchange(server, body)

    for path in PATHS:
        router.add_api_route(
            path, exchange_messages, methods=["POST"], include_in_schema=False, response_class=Response
        )
    if settings.mcp.issuers:
        _add_metadata(router, settings.mcp)
    return router


def _refuse_oversized(request: Request, message: Oversized, most_bytes: int) -> Response:
    code, answer = refuse_oversized(message, TooLarge("the request", "max_request_bytes", most_bytes))
    request.scope[TOOL] = ("unknown", code, None)
    return json_response(answer, 200 if message.is_call else 400)


def _add_metadata(router: APIRouter, settings: McpSettings) -> None:
    """Add the routes of the protected resource's metadata: below its path and at its host."""
    told = {
        "resource": settings.resource,
        "authorization_servers": [one.issuer for one in settings.issuers],
        "scopes_supported": sorted({scope for one in settings.issuers for scope in (one.read_scope, one.write_scope)}),
        "bearer_methods_supported": ["header"],
        "resource_name": "Afterturn",
    }

    async def describe_resource(request: Request) -> Response:
        del request
        return json_response(told)

    for path in dict.fromkeys((WELL_KNOWN, WELL_KNOWN + urlsplit(settings.resource).path.rstrip("/"))):
        router.add_api_route(path, describe_resource, methods=["GET"], include_in_schema=False, response_class=Response)


def _name_issuers(
    error: Unauthenticated | InsufficientScope, request: Request, settings: McpSettings
) -> Unauthenticated | InsufficientScope:
    """Return the error with a challenge that names the place of the metadata, where there are issuers."""
    if settings.issuers:
        place = urlsplit(settings.resource)
        metadata = f"{place.scheme}://{place.netloc}{WELL_KNOWN}{place.path.rstrip('/')}"
        scheme, *said = error.challenge.split(" ", 1)
        if not said and "authorization" in request.headers:
            said = ['error="invalid_token"']
        said.append(f'resource_metadata="{metadata}"')
        error.challenge = f"{scheme} {', '.join(said)}"
    return error


async def _read_message(request: Request, most_bytes: int) -> bytes | Oversized:
    """Return a request's body, or where it has more than `most_bytes` its id and method. Raises TooLarge, TooSlow.

    It is read to its end: an answer before that would close the connection under a client that still sends, which takes
    it for an outage and tries again for ever.
    """
    pieces, size, beginning, end = list[bytes](), 0, b"", b""
    async for chunk in request.stream():
        size += len(chunk)
        if size > most_bytes - ENDS:
            end = (end + chunk)[-ENDS:]
        if size <= most_bytes:
            pieces.append(chunk)
        else:
            beginning = beginning or b"".join((*pieces, chunk[:ENDS]))[:ENDS]
            pieces.clear()
    return b"".join(pieces) if size <= most_bytes else identify_message(beginning, end)
