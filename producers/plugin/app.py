"""The seven routes of memory plugin contract v1, in plain ASGI, over a store.

A path is split first and then decoded, once: `%2F` is no slash, `%253A` no colon. Fields of capabilities that the store
does not claim are ignored, as are fields unknown to the contract; a request that it refuses is 400 and reaches no
store. A 5xx opens a caller's circuit breaker, so only outages and our own faults are answered with one.
"""

import asyncio
import json
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes
from uuid import UUID

import orjson
import structlog
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from producers import metrics
from producers.errors import Invalid, Overloaded, PermissionDenied, TooLarge, TooSlow, Unauthenticated
from producers.fair_queue import CURRENT, FairQueue, Slot, charge_tenant, weight_of
from producers.http.limits import RequestBody, ResponseSender
from producers.http.middleware import GRANT, METHODS
from producers.http.request_trace import describe_request, trace_request
from producers.plugin.openapi import describe_routes
from producers.plugin.store import PluginStore
from producers.plugin.wire import (
    VERSION,
    Capability,
    ForgetRequest,
    MemoryWrite,
    NamespacePatch,
    NamespaceUpsert,
    SearchRequest,
    is_namespace,
)
from producers.service.bodies import MOST_PROBLEMS
from producers.service.json_values import limit_json_now
from producers.service.redacting import Redactor
from producers.settings import ApiSettings
from store.authority import Authority, act_as_service, begin_call
from store.clock import read_machine_time
from store.database_outage import is_outage
from store.errors import AuthorityEnded, ErasedMeanwhile, NotFound, OverQuota, RateLimited, ResourceBusy, TurnBusy
from store.off_loop import run_off_loop, run_steps_off_loop
from store.tenancy.keys import Grant

#: Time-out of the store's health check, in seconds.
HEALTH_S = 2.0
#: Prefix of namespaces that are reserved for the service.
RESERVED = "gateway:"
#: Fields of a body that need a capability of the store.
FIELDS = {
    "expires_at": Capability.TTL,
    "pin": Capability.PIN,
    "propagation": Capability.PROPAGATION,
    "embedding": Capability.EMBEDDING,
    "created_at": Capability.CREATED_AT,
    "cursor": Capability.CURSOR,
    "export": Capability.EXPORT,
}

#: Fields that are returned exactly as they were sent, but for credentials, or refused: their numbers are read digit for
#: digit.
AS_SENT = ("metadata", "propagation")

#: The header that names receipts of erasures, and how many it names.
RECEIPTS, RECEIPTS_NAMED = "afterturn-erasures", 16

log = structlog.get_logger("afterturn.plugin")

Request_ = TypeVar("Request_", bound=BaseModel)


class _Upsert(NamespaceUpsert):
    model_config = ConfigDict(extra="ignore")


class _Patch(NamespacePatch):
    model_config = ConfigDict(extra="ignore")


class _Write(MemoryWrite):
    model_config = ConfigDict(extra="ignore")


class _Search(SearchRequest):
    model_config = ConfigDict(extra="ignore")


#: Namespaces that one search may name.
MOST_NAMESPACES = 1_000


class _Forget(ForgetRequest):
    model_config = ConfigDict(extra="ignore")


@dataclass(frozen=True, slots=True)
class _Route:
    """The name of a request's route for logs and metrics."""

    path: str


class Refusal(Exception):
    """A request that ends in an Error body."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.details, self.headers = status, code, details, headers

    def response(self) -> Response:
        """Return the response with the Error body."""
        body: dict[str, Any] = {"code": self.code, "message": str(self)}
        if self.details:
            body["details"] = dict(self.details)
        return JSONResponse(body, self.status, dict(self.headers or {}))


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
            return _refusal_of(error).response()

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
                namespace = (await self._read(_Forget)).requested_by_namespace
                return _answer_deletion(await self._store.forget(namespace, _parse_uuid(memory_id)))
            case _, "v1", "namespaces", _:
                raise Refusal(405, "bad_request", "a namespace knows PUT, PATCH and DELETE", None, _ALLOW)
        raise Refusal(404, "not_found", "no such path")

    async def _search(self) -> Response:
        asked = await self._read(_Search)
        if len(asked.namespaces) > MOST_NAMESPACES:
            raise _bad_request(f"a search reads at most {MOST_NAMESPACES} namespaces")
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
            raise _bad_request(f"namespaces that begin with {RESERVED} are the service's own: choose another prefix")
        body = await self._read(_Upsert)
        changes = {field: value for field, value in _list_changes(body).items() if value is not None}
        return JSONResponse(_dump_answer(await self._store.upsert_namespace(name, body.kind, self._redact(changes))))

    async def _patch(self, name: str) -> Response:
        changes = self._redact(_list_changes(await self._read(_Patch)))
        return JSONResponse(_dump_answer(await self._store.patch_namespace(name, changes)))

    async def _write(self, name: str) -> Response:
        body = await self._read(_Write)
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

    async def _read(self, model: type[Request_]) -> Request_:
        """Return the body as an object of this model. Raises Refusal, which names fields and never values."""
        return await run_off_loop(len(self._raw), self._read_now, model)

    def _read_now(self, model: type[Request_]) -> Request_:
        known = {name for name in model.model_fields if name not in FIELDS or FIELDS[name] in self._store.capabilities}
        as_sent = known.intersection(AS_SENT)
        # In a patch, null clears a field; elsewhere it counts as absent.
        body = {
            name: value
            for name, value in _parse_object(self._raw, as_sent).items()
            if name in known and (value is not None or model is _Patch)
        }
        for name in as_sent:
            if any(isinstance(one, _Rounded) for one in _iterate_leaves(body.get(name))):
                raise _bad_request(f"{name}: a number has more digits than can be kept; send it as a text")
        try:
            return model.model_validate(body)
        except ValidationError as error:
            if (count := error.error_count()) > MOST_PROBLEMS:
                raise _bad_request(f"the body has {count} wrong fields") from None
            problems = error.errors(include_input=False, include_url=False, include_context=False)
        messages = (
            f"{'.'.join(map(str, one['loc']))}: {one['msg'].removeprefix('Value error, ')}" for one in problems[:10]
        )
        raise _bad_request("; ".join(one.removeprefix(": ") for one in messages))


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
        raise _bad_request("the namespace must be like workspace:abc, in at most 256 bytes")
    return name


def _parse_uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise _bad_request("the memory's id must be a UUID") from None


def _list_changes(body: NamespaceUpsert | NamespacePatch) -> dict[str, Any]:
    """Return the fields that a body names besides the kind; empty metadata counts as none."""
    named: dict[str, Any] = {
        field: getattr(body, field) for field in ("expires_at", "metadata") if field in body.model_fields_set
    }
    return named | ({"metadata": None} if named.get("metadata") == {} else {})


def _dump_answer(answer: BaseModel) -> dict[str, Any]:
    return answer.model_dump(mode="json", exclude_none=True)


def _answer_deletion(receipts: Sequence[UUID]) -> Response:
    """Return the answer to a deletion; the header names the receipts of its erasure, where they are few."""
    named = ",".join(map(str, receipts[:RECEIPTS_NAMED]))
    return Response(status_code=204, headers={RECEIPTS: named} if named else None, media_type="application/json")


# -- JSON


class _Rounded(float):
    """A number that a double cannot hold digit for digit."""


def _parse_object(raw: bytes, as_sent: Collection[str]) -> dict[str, Any]:
    """Return the JSON object of a body, the fields `as_sent` digit for digit.

    Raises Refusal, and Invalid for too many values.
    """
    limit_json_now(raw)
    try:
        value = orjson.loads(raw)
        if isinstance(value, dict) and any(value.get(name) is not None for name in as_sent):
            value = json.loads(raw, parse_float=_parse_number)
    except (ValueError, RecursionError):
        raise _bad_request("the body must be JSON, in UTF-8, and not nested too deeply") from None
    if not isinstance(value, dict):
        raise _bad_request("the body must be a JSON object")
    if b"\\u0000" in raw and any(isinstance(one, str) and "\0" in one for one in _iterate_leaves(value)):
        raise _bad_request("the body holds the character NUL, which cannot be kept")
    return value


def _parse_number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number if Decimal(text) == Decimal(repr(number)) else _Rounded(number)


def _iterate_leaves(value: object) -> Iterator[object]:
    """Yield the texts (keys of objects included) and numbers of a JSON value."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += one.keys()
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
        else:
            yield one


# -- refusals


def _bad_request(message: str) -> Refusal:
    return Refusal(400, "bad_request", message)


def _refusal_of(error: Exception) -> Refusal:
    """Return the refusal for an error; an unexpected one is only reported as such to the caller."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, TurnBusy):
        return Refusal(429, "unavailable", "this memory is being written by others", None, {"retry-after": "1"})
    if isinstance(error, ResourceBusy) or is_outage(error):
        log.warning("plugin_outage", error=type(error).__name__)
        return Refusal(503, "unavailable", "the database cannot answer now; whether it was done is not known")
    refusal = _refusal_of_request(error) or _refusal_of_limit(error)
    if refusal is None:
        log.error("plugin_failed", error=type(error).__name__)
    return refusal or Refusal(500, "internal", "an unexpected error")


def _refusal_of_request(error: Exception) -> Refusal | None:
    """Return the refusal for an error of authentication, permission, target or input, else None."""
    match error:
        case Unauthenticated() | AuthorityEnded():
            return Refusal(401, "forbidden", str(error), None, {"www-authenticate": "Bearer"})
        case PermissionDenied():
            return Refusal(403, "forbidden", str(error))
        case NotFound() | ErasedMeanwhile():
            return Refusal(404, "not_found", str(error) or "it does not exist")
        case Invalid():
            return Refusal(400, "bad_request", str(error), error.details)
    return None


def _refusal_of_limit(error: Exception) -> Refusal | None:
    """Return the refusal for an exceeded limit of size, rate or time, else None."""
    match error:
        case TooLarge():
            return Refusal(413, "bad_request", str(error), error.details, {"connection": "close"})
        case TooSlow():
            return Refusal(408, "bad_request", str(error), None, {"connection": "close"})
        case Overloaded() | RateLimited():
            return Refusal(429, "unavailable", str(error), None, {"retry-after": str(error.retry_after_s)})
        case OverQuota():
            # A 5xx or 429 would make the caller repeat a request that cannot succeed.
            return Refusal(403, "forbidden", str(error), getattr(error, "details", None))
    return None
