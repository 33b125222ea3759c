"""The seven routes of memory plugin contract v1, in plain ASGI, over a store.

A path is split first and then decoded, once: `%2F` is no slash, `%253A` no colon. A request that the contract refuses
is 400 and reaches no store.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import unquote_to_bytes
from uuid import UUID

import structlog
from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from producers import metrics
from producers.errors import PermissionDenied, TooSlow
from producers.fair_queue import CURRENT, FairQueue, Slot, charge_tenant, weight_of
from producers.http.limits import RequestBody, ResponseSender
from producers.http.middleware import GRANT, METHODS
from producers.http.request_trace import describe_request, trace_request
from producers.plugin.bodies import AS_SENT, Body, list_changes, parse_request
from producers.plugin.openapi import describe_routes
from producers.plugin.refusals import Refusal, bad_request, build_refusal
from producers.plugin.store import PluginStore
from producers.plugin.wire import (
    VERSION,
    ForgetRequest,
    MemoryWrite,
    NamespacePatch,
    NamespaceUpsert,
    SearchRequest,
    is_namespace,
)
from producers.service.redacting import Redactor
from producers.settings import ApiSettings
from store.authority import Authority, act_as_service, begin_call
from store.clock import read_machine_time
from store.off_loop import run_off_loop, run_steps_off_loop
from store.tenancy.keys import Grant

#: Time-out of the store's health check, in seconds.
HEALTH_S = 2.0
#: Prefix of namespaces that are reserved for the service.
RESERVED = "gateway:"
#: The header that names receipts of erasures, and how many it names.
RECEIPTS, RECEIPTS_NAMED = "afterturn-erasures", 16

log = structlog.get_logger("afterturn.plugin")

#: Namespaces that one search may name.
MOST_NAMESPACES = 1_000


@dataclass(frozen=True, slots=True)
class _Route:
    """The name of a request's route for logs and metrics."""

    path: str


#: Returns the store of a request's tenant; raises Unauthenticated, PermissionDenied.
StoreOf = Callable[[Request], Awaitable[PluginStore]]


class PluginApp:
    """The ASGI application. `store_of` finds the store of a request; limits of a body and of its time are the API's.

    `fair`: the fair queue of tenants' requests; a tenant beyond its share gets a 429. `alone`: it has a listener of its
    own, and so counts its requests itself. `is_own_name` accepts host names, None: all. Without that check a web page
    whose host name was made to point here could read and write memory through its visitors' browsers. `clock`: that
    of the database, for when a call began.
    """

    def __init__(
        self,
        store_of: StoreOf,
        settings: ApiSettings,
        fair: FairQueue | None = None,
        *,
        alone: bool = False,
        is_own_name: Callable[[str], bool] | None = None,
        clock: Callable[[], datetime] = read_machine_time,
    ) -> None:
        self._clock = clock
        self._store_of, self._settings, self._fair = store_of, settings, fair
        self._alone, self._is_own_name = alone, is_own_name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            raise NotImplementedError(f"{scope['type']} is not served")
        # On the API's own port, a request has a span already.
        with trace_request(scope) if self._alone else nullcontext():
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = time.perf_counter()
        scope["route"] = _Route(_label_route(scope))
        try:
            response = await self._answer(scope, receive)
        except ClientDisconnect:
            return
        metrics.PLUGIN_SECONDS.labels(scope["route"].path).observe(time.perf_counter() - begun)
        try:
            await response(scope, receive, ResponseSender(send, self._settings))
        except TooSlow:
            log.info("answer_not_taken", status=response.status_code)
        if self._alone:
            self._note(scope, response.status_code, time.perf_counter() - begun)

    @staticmethod
    def _note(scope: Scope, status: int, took_s: float) -> None:
        """Count and log a request: method, route, status and time, never content."""
        method, route = scope["method"] if scope["method"] in METHODS else "other", scope["route"].path
        metrics.REQUESTS.labels(method, route, str(status)).inc()
        describe_request({"method": method, "route": route, "status": status}, None)
        log.info("plugin_request", method=method, route=route, status=status, ms=round(took_s * 1000, 2))

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        request = Request(scope, RequestBody(receive, self._settings))
        try:
            self._check_names(request)
            began = self._clock()
            raw = await request.body()
            store = await self._store_of(request)
            grant = scope.get(GRANT)
            redactor = Redactor(self._settings.redact, _read_keys(request))
            with act_as_service():
                begin_call(grant.since(began) if isinstance(grant, Grant) else Authority(began))
                async with self._turn(store.tenant, len(raw)):
                    return await _PluginRequest(store, raw, redactor).route(request.method, _split_path(scope))
        except ClientDisconnect:
            raise
        except Exception as error:  # noqa: BLE001 - an error's text must not reach the server's log
            return build_refusal(error).response()

    def _check_names(self, request: Request) -> None:
        """Raise PermissionDenied for a request of a web page."""
        if self._is_own_name is None:
            return
        if request.headers.get("origin") or not self._is_own_name(request.url.hostname or ""):
            raise PermissionDenied(
                "this address is for programs on this machine: web pages and other names are refused"
            )

    @asynccontextmanager
    async def _turn(self, tenant: UUID, size: int) -> AsyncGenerator[None]:
        """Hold a slot of the fair queue during the block. Raises Overloaded."""
        if self._fair is None:
            yield
            return
        slot = Slot(self._fair, tenant, weight_of(size))
        await slot.take()
        CURRENT.set(slot)
        try:
            yield
        finally:
            slot.give_back()


class _PluginRequest:
    """One request to its store."""

    def __init__(self, store: PluginStore, raw: bytes, redactor: Redactor) -> None:
        self._store, self._raw, self._redactor = store, raw, redactor

    async def route(self, method: str, path: Sequence[str]) -> Response:  # noqa: PLR0911 - one for each route
        match (method, *path):
            case "GET", "v1", "health":
                return await self._health()
            case "GET", "v1", "openapi.json":
                return JSONResponse(describe_routes())
            case "PUT", "v1", "namespaces", name:
                return await self._upsert(_check_name(name))
            case "PATCH", "v1", "namespaces", name:
                return await self._patch(_check_name(name))
            case "DELETE", "v1", "namespaces", name:
                return _answer_deletion(await self._store.delete_namespace(_check_name(name)))
            case "POST", "v1", "namespaces", name, "memories":
                return await self._write(_check_name(name))
            case "POST", "v1", "search":
                return await self._search()
            case "DELETE", "v1", "memories", memory_id:
                namespace = (await self._read(ForgetRequest)).requested_by_namespace
                return _answer_deletion(await self._store.forget(namespace, _parse_uuid(memory_id)))
            case _, "v1", "namespaces", _:
                raise Refusal(405, "bad_request", "a namespace knows PUT, PATCH and DELETE", None, _ALLOW)
        raise Refusal(404, "not_found", "no such path")

    async def _search(self) -> Response:
        asked = await self._read(SearchRequest)
        if len(asked.namespaces) > MOST_NAMESPACES:
            raise bad_request(f"a search reads at most {MOST_NAMESPACES} namespaces")
        found = await self._store.search(asked)
        answer = await run_steps_off_loop(found.effort, found.encode())
        charge_tenant(len(answer))
        return Response(answer, media_type="application/json")

    async def _health(self) -> Response:
        """Return the health of the store; while it is away, as HealthResponse and Error in one body."""
        try:
            async with asyncio.timeout(HEALTH_S):
                health = await self._store.health()
        except Exception as error:  # noqa: BLE001 - the caller learns that it is away, the log why
            log.warning("plugin_unhealthy", error=type(error).__name__)
            degraded = {"status": "degraded", "version": VERSION, "capabilities": sorted(self._store.capabilities)}
            error_body = {"code": "unavailable", "message": "the database cannot answer now"}
            return JSONResponse(degraded | error_body, 503)
        return JSONResponse(
            {"status": health.status, "version": health.version, "capabilities": list(health.capabilities)}
        )

    async def _upsert(self, name: str) -> Response:
        if name.startswith(RESERVED):
            raise bad_request(f"namespaces that begin with {RESERVED} are the service's own: choose another prefix")
        body = await self._read(NamespaceUpsert)
        changes = {field: value for field, value in list_changes(body).items() if value is not None}
        return JSONResponse(_dump_answer(await self._store.upsert_namespace(name, body.kind, self._redact(changes))))

    async def _patch(self, name: str) -> Response:
        changes = self._redact(list_changes(await self._read(NamespacePatch)))
        return JSONResponse(_dump_answer(await self._store.patch_namespace(name, changes)))

    async def _write(self, name: str) -> Response:
        body = await self._read(MemoryWrite)
        written = await self._store.write(name, await run_off_loop(len(self._raw), self._redact_write, body))
        return JSONResponse({"id": written.id, "namespace": written.namespace}, 201)

    def _redact_write(self, body: MemoryWrite) -> MemoryWrite:
        """Return a write without credentials in its text and what it propagates."""
        redacted: dict[str, Any] = {"content": self._redactor.redact_text(body.content)}
        if body.propagation is not None:
            redacted["propagation"] = self._redactor.redact_object(body.propagation)
        return body.model_copy(update=redacted)

    def _redact(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return changes of a namespace without credentials in its metadata."""
        return {
            field: self._redactor.redact_object(value) if value and field in AS_SENT else value
            for field, value in changes.items()
        }

    async def _read(self, model: type[Body]) -> Body:
        """Return the body as an object of this model. Raises Refusal, and Invalid for too many values."""
        return await run_off_loop(len(self._raw), parse_request, self._raw, model, self._store.capabilities)


def _read_keys(request: Request) -> tuple[str, ...]:
    """Return the key that a request came with, to be redacted from what it writes."""
    _, _, key = request.headers.get("authorization", "").partition(" ")
    return (key.strip(),) if key.strip() else ()


_ALLOW = {"allow": "PUT, PATCH, DELETE"}


def _split_path(scope: Scope) -> Sequence[str]:
    """Return the segments of the path, decoded once; bytes that are not UTF-8 match no name."""
    parts = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0].split(b"/")[1:]
    return [unquote_to_bytes(part).decode(errors="replace") for part in parts]


def _label_route(scope: Scope) -> str:
    """Return the route of a path for logs and metrics, without the names in it."""
    match _split_path(scope):
        case "v1", "health" | "search" | "openapi.json" as last:
            return f"/v1/{last}"
        case "v1", "namespaces", _:
            return "/v1/namespaces/{name}"
        case "v1", "namespaces", _, "memories":
            return "/v1/namespaces/{name}/memories"
        case "v1", "memories", _:
            return "/v1/memories/{id}"
    return "unrouted"


def _check_name(name: str) -> str:
    if not is_namespace(name):
        raise bad_request("the namespace must be like workspace:abc, in at most 256 bytes")
    return name


def _parse_uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise bad_request("the memory's id must be a UUID") from None


def _dump_answer(answer: BaseModel) -> dict[str, Any]:
    return answer.model_dump(mode="json", exclude_none=True)


def _answer_deletion(receipts: Sequence[UUID]) -> Response:
    """Return the answer to a deletion; the header names the receipts of its erasure, where they are few."""
    named = ",".join(map(str, receipts[:RECEIPTS_NAMED]))
    return Response(status_code=204, headers={RECEIPTS: named} if named else None, media_type="application/json")
