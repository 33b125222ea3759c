"""HTTP routes for a platform: a workspace's namespaces, its own to delete, and its memories to list and forget.

The key identifies the workspace; a path with another workspace is answered like one that does not exist.
"""

from collections.abc import Awaitable, Callable
from uuid import UUID

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from producers.perimeter.callers import Callers, CallingWorkspace, read_key
from producers.perimeter.client import build_body
from producers.perimeter.errors import InvalidCall, NotConfigured, PerimeterError, UnknownCaller, WorkspaceNotFound
from producers.perimeter.mcp import PerimeterMcp
from producers.perimeter.namespaces import NamespaceAccess
from producers.perimeter.perimeter import Perimeter
from producers.perimeter.tools import SearchArguments, Toolbox

STATUSES = {
    "bad_request": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "not_found": 404,
    "internal": 502,
    "unavailable": 503,
}
HINT = "set MEMORY_PLUGIN_URL to where a memory plugin of contract v1 listens"

Serve = Callable[[Request, CallingWorkspace], Awaitable[Response]]


def create_perimeter_app(
    perimeter: Perimeter, callers: Callers, *, tools: bool = False, legacy: bool = False
) -> Starlette:
    """Return the application; mount it beside another, or serve it by itself.

    With `tools`, agents have MCP at /mcp; with `legacy`, the older recall_memory there, too.
    """

    def route(path: str, method: str, serve: Serve) -> Route:
        async def answer(request: Request) -> Response:
            try:
                return await serve(request, await _authenticate(request, callers))
            except PerimeterError as error:
                return _answer_error(error)

        return Route(f"/workspaces/{{id}}/v2{path}", answer, methods=[method])

    async def namespaces(_: Request, caller: CallingWorkspace) -> Response:
        readable = await perimeter.readable(caller)
        shown = {"readable": readable, "writable": [entry for entry in readable if entry.writable]}
        return JSONResponse({name: [_label_namespace(entry) for entry in entries] for name, entries in shown.items()})

    async def search(request: Request, caller: CallingWorkspace) -> Response:
        asked = _search_of(request)
        hits = await perimeter.search(caller, asked.query, asked.namespaces, asked.kinds, asked.limit)
        return Response(await hits.encode(), media_type="application/json")

    async def forget(request: Request, caller: CallingWorkspace) -> Response:
        try:
            memory_id = UUID(request.path_params["memory_id"])
        except ValueError:
            raise InvalidCall("memory_id: must be a UUID") from None
        await perimeter.forget(caller, memory_id, request.query_params.get("namespace"))
        return JSONResponse({"forgotten": True})

    async def delete_namespace(request: Request, caller: CallingWorkspace) -> Response:
        return JSONResponse({"deleted": await perimeter.delete_namespace(caller, request.path_params["name"])})

    return Starlette(
        routes=[
            route("/namespaces", "GET", namespaces),
            route("/namespaces/{name}", "DELETE", delete_namespace),
            route("/memories", "GET", search),
            route("/memories/{memory_id}", "DELETE", forget),
            *(
                [Route("/mcp", PerimeterMcp(Toolbox(perimeter, legacy=legacy), callers), methods=["POST"])]
                if tools
                else []
            ),
        ],
        exception_handlers={UnknownCaller: _answer_unknown},
    )


async def _answer_unknown(_request: Request, error: Exception) -> Response:
    return _answer_error(error) if isinstance(error, PerimeterError) else Response(status_code=500)


async def _authenticate(request: Request, callers: Callers) -> CallingWorkspace:
    """Return the caller by the key. Raises UnknownCaller; WorkspaceNotFound where the path names another workspace."""
    caller = await callers.find(read_key(request))
    if caller.workspace != request.path_params["id"]:
        raise WorkspaceNotFound("there is no such workspace")
    return caller


def _search_of(request: Request) -> SearchArguments:
    """Return the parameters of a search; namespace and kind may be repeated. Raises InvalidCall."""
    asked = request.query_params
    unknown = set(asked) - {"query", "namespace", "kind", "limit"}
    if unknown:
        raise InvalidCall("a parameter is not known: known are query, namespace, kind and limit")
    limit = asked.get("limit", "20")
    return build_body(
        SearchArguments,
        query=asked.get("query"),
        namespaces=asked.getlist("namespace"),
        kinds=asked.getlist("kind"),
        limit=int(limit) if limit.isascii() and limit.isdigit() and len(limit) < len("10000") else -1,
    )


def _label_namespace(entry: NamespaceAccess) -> dict[str, str]:
    return {"name": entry.name, "kind": entry.kind, "label": entry.display_name or entry.name}


def _answer_error(error: PerimeterError) -> Response:
    code = error.wire_code if error.wire_code in STATUSES else "internal"
    body = {"code": code, "message": str(error), "retryable": error.retryable, "details": dict(error.details)}
    if isinstance(error, NotConfigured):
        body["hint"] = HINT
    headers = {"www-authenticate": "Bearer"} if isinstance(error, UnknownCaller) else {}
    return JSONResponse({"error": body}, STATUSES[code], headers)
