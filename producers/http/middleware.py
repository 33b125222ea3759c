"""Middleware of every request: request id, limits, host check, log line, audit row.

Plain ASGI, because each wrapper of a response would cost a turn a tenth of its budget.
"""

import time
from datetime import timedelta
from uuid import UUID, uuid4

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from embeddings.loopback import is_loopback
from producers import metrics
from producers.errors import PermissionDenied
from producers.fair_queue import CURRENT, FairQueue, Slot
from producers.host_names import is_address, split_port
from producers.http import error_responses
from producers.http.limits import RequestBody, ResponseSender, Unfinished, UnknownCallers, find_limit, too_large
from producers.http.request_trace import describe_request, trace_request
from producers.service.auditing import CallRecorder
from producers.service.call_place import CURRENT as PLACE
from producers.service.call_place import CallPlace
from producers.settings import ApiSettings
from store.authority import act_as_service
from store.tenancy import call_audit

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
REQUEST_ID = "afterturn.request_id"
#: Paths that are asked for by address, and ports that a URL leaves out.
PROBES = frozenset({"/health/live", "/health/ready", "/metrics"})
IMPLIED_PORTS = ("80", "443")
FIRST_REFUSAL, UNAUTHENTICATED = 400, 401
#: The response header that hides which HTTP server is used.
SERVER = (b"server", b"afterturn")
#: The scope's key of the function that takes a slot: `await scope[ENTER](host_id, weight)`.
ENTER = "afterturn.enter"
#: The scope's key of the request's grant, once that is known.
GRANT = "afterturn.grant"
#: The scope's key that is there when the console makes the call.
CONSOLE = "afterturn.console"
#: The path prefixes of the interfaces, routed or not; other calls (health, metrics, documentation) are not audited.
INTERFACES = {
    "/api/v1/operator/": call_audit.Interface.OPERATOR,
    "/api/": call_audit.Interface.HTTP,
    "/memories/": call_audit.Interface.GATEWAY,
    "/mcp": call_audit.Interface.MCP,
    "/v1/": call_audit.Interface.HTTP,
}
#: The scope's key of an MCP call: tool, code of a refusal, and class of an unexpected error, if any.
TOOL = "afterturn.tool"

log = structlog.get_logger("afterturn.api")


class CallMiddleware:
    """The middleware of every request: answers failures with an error body, and keeps their texts out of the log."""

    def __init__(
        self, app: ASGIApp, settings: ApiSettings, fair: FairQueue, recorder: CallRecorder | None = None
    ) -> None:
        self._app = app
        self._fair = fair
        self._recorder = recorder
        self._settings = settings
        self._unfinished = Unfinished(settings.max_unfinished_per_address, settings.trusted_proxies)
        self._unknown = UnknownCallers(settings.trusted_proxies)
        # On a loopback address only this machine's own names are accepted, against DNS rebinding: a foreign name that
        # was made to point here. On other addresses the operator lists the names.
        self._own_names_only = is_loopback(settings.host) or bool(settings.allowed_hosts)
        self._allowed = frozenset(map(split_port, settings.allowed_hosts))
        # Probes and scrapers ask for the address of one machine or pod. An address cannot be made to point elsewhere.
        self._by_address = PROBES if not is_loopback(settings.host) else frozenset[str]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with trace_request(scope):
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = _HttpRequest(scope, ResponseSender(send, self._settings), self._fair, self._unknown)
        try:
            with self._unfinished.one_more(scope), act_as_service():
                self._admit(scope)
                await self._app(
                    scope,
                    RequestBody(receive, self._settings, find_limit(scope["path"], self._settings)),
                    request.send,
                )
        except Exception as error:  # noqa: BLE001 - an error's text must not reach the server's log
            await request.failed(error, receive)
        finally:
            request.leave()
            # The server keeps a connection while anything refers to an unread body, so no reference cycle may stay.
            del scope[ENTER]
        request.note(self._recorder)

    def _admit(self, scope: Scope) -> None:
        """Check the headers. Raises TooLarge, PermissionDenied."""
        most_bytes = find_limit(scope["path"], self._settings)
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value) > most_bytes:
                raise too_large(most_bytes)
            if name == b"host" and not self._leads_here(value, by_address=scope["path"] in self._by_address):
                raise PermissionDenied("this host name does not lead here (api.allowed_hosts)")
            if name == b"origin" and not self._leads_here(value.partition(b"://")[2]):
                raise PermissionDenied("a page of another origin may not call this (api.allowed_hosts)")

    def _leads_here(self, host: bytes, *, by_address: bool = False) -> bool:
        """Return whether this host may be asked for to reach the service; `by_address`: any address may."""
        if not self._own_names_only:
            return True
        name, port = split_port(host.decode("latin-1"))
        if is_loopback(name) or not {(name, ""), (name, port)}.isdisjoint(self._allowed):
            return True
        # The port that a scheme implies is left out.
        implied = not port and not {(name, one) for one in IMPLIED_PORTS}.isdisjoint(self._allowed)
        return implied or (by_address and is_address(name))


class _HttpRequest:
    """One request: its id, duration, slot and outcome."""

    def __init__(self, scope: Scope, send: Send, fair: FairQueue, unknown: UnknownCallers) -> None:
        self._scope = scope
        self._send = send
        self._fair = fair
        self._unknown = unknown
        self._slot: Slot | None = None
        self._start = time.perf_counter()
        self._uuid = uuid4()
        self._id = self._uuid.hex
        self._status = 0
        self._code: str | None = None
        self._error: str | None = None
        self._place = CallPlace()
        PLACE.set(self._place)
        scope[REQUEST_ID] = self._id
        scope[ENTER] = self.enter

    async def enter(self, host: UUID, weight: int) -> None:
        """Take a slot for the tenant, which the request keeps until its answer is made. Raises Overloaded."""
        slot = Slot(self._fair, host, weight)
        await slot.take()
        self._slot = slot
        CURRENT.set(slot)

    def leave(self) -> None:
        """Release the request's slot."""
        if self._slot is not None:
            self._slot.give_back()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.leave()
            self._status = message["status"]
            if self._status == UNAUTHENTICATED:
                await self._unknown.hold_back(self._scope)
            message["headers"] += ((b"x-request-id", self._id.encode()), SERVER)
        elif self._slot is not None:
            self._slot.charge(len(message.get("body", b"")))
        await self._send(message)

    async def failed(self, error: Exception, receive: Receive) -> None:
        known = error_responses.error_to_wire(error)
        self._code = known.code
        if known is error_responses.INTERNAL or known is error_responses.UNAVAILABLE:
            self._error = type(error).__name__
        if not self._status:
            await error_responses.error_response(error, self._id)(self._scope, receive, self.send)

    def note(self, recorder: CallRecorder | None) -> None:
        """Count, log and audit the request: method, route, status and times, never content."""
        method = self._scope["method"] if self._scope["method"] in METHODS else "other"
        route = getattr(self._scope.get("route"), "path", "unrouted")
        metrics.REQUESTS.labels(method, route, str(self._status)).inc()
        took = round((time.perf_counter() - self._start) * 1000, 2)
        told = {"method": method, "route": route, "status": int(self._status), "ms": took, "request_id": self._id}
        told |= self._place.fields()
        if TOOL in self._scope:
            told["tool"], self._code, self._error = self._scope[TOOL]
            metrics.TOOL_CALLS.labels(told["tool"], self._code or "OK").inc()
            route = f"{route} {told['tool']}"
        if self._code:
            told["code"] = self._code
        describe_request(told, self._scope.get(GRANT), self._error or self._code)
        if self._error:
            log.error("request", **told, error=self._error)
        elif route in PROBES and self._status < FIRST_REFUSAL:
            log.debug("request", **told)  # every few seconds, for ever: what is well would hide the rest
        else:
            log.info("request", **told)
        if recorder is not None:
            self._record(recorder, method, route, took)

    def _record(self, recorder: CallRecorder, method: str, route: str, took: float) -> None:
        path = self._scope["path"]
        interface = next((interface for start, interface in INTERFACES.items() if path.startswith(start)), None)
        if CONSOLE in self._scope:
            interface = call_audit.Interface.CONSOLE
        if interface is not None:
            grant = self._scope.get(GRANT)
            call = call_audit.AuditedCall(
                recorder.clock() - timedelta(milliseconds=took),
                interface,
                f"{method} {route}",
                took,
                grant.host_id if grant else call_audit.NO_HOST,
                grant.key_id if grant else None,
                status=self._status,
                code=self._code or error_responses.ROUTER_CODES.get(self._status),
                request_id=self._uuid,
            )
            recorder.note(call)
