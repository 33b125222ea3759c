"""What every request passes: a number, a look at the host it asked for, a size limit, a line in the log, a note.

Plain ASGI, because each wrapper of a response would cost a turn a tenth of its budget.
"""

import ipaddress
import time
from datetime import timedelta
from uuid import uuid4

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from producers import metrics
from producers.auditing import CallRecorder
from producers.errors import PermissionDenied, TooLarge
from producers.http import problems
from producers.settings import ApiSettings
from store import call_audit

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
REQUEST_ID = "afterturn.request_id"
#: What the request's key allows, once that is known.
GRANT = "afterturn.grant"
#: How the paths of each door begin, routed or not; calls of others (health, metrics, documentation) are not noted.
DOORS = {"/api/": call_audit.Door.HTTP, "/memories/": call_audit.Door.GATEWAY}

log = structlog.get_logger("afterturn.api")


class Door:
    """Wraps the application; no failure gets past it but as a body of ours, and no failure's text into a log."""

    def __init__(self, app: ASGIApp, settings: ApiSettings, recorder: CallRecorder | None = None) -> None:
        self._app = app
        self._recorder = recorder
        self._limit = settings.max_request_bytes
        # Only who asks for this machine by a name of its own is let in; a foreign name that was made to point here
        # (DNS rebinding) is not. Behind another address names are the operator's business.
        self._own_names_only = is_loopback(settings.host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        visit = _Visit(scope, send)
        try:
            await self._app(scope, self._admitted(scope, receive), visit.send)
        except Exception as error:  # noqa: BLE001 - whatever it is, its text must not reach the server's log
            await visit.failed(error, receive)
        visit.note(self._recorder)

    def _admitted(self, scope: Scope, receive: Receive) -> Receive:
        """Return the request's body under its limit. Raises TooLarge, PermissionDenied."""
        length, host = None, None
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit():
                length = int(value)
            elif name == b"host":
                host = value
        if self._own_names_only and host is not None and not is_loopback(_name(host)):
            raise PermissionDenied("this host name does not lead here")
        if length is None:
            return _Limited(receive, self._limit)
        if length > self._limit:
            raise _too_large(self._limit)
        return receive


class _Limited:
    """Counts a body that did not tell its length."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive = receive
        self._limit = limit
        self._left = limit

    async def __call__(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise _too_large(self._limit)
        return message


class _Visit:
    """One request's number, clock and outcome."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._start = time.perf_counter()
        self._uuid = uuid4()
        self._id = self._uuid.hex
        self._status = 0
        self._code: str | None = None
        self._error: str | None = None
        scope[REQUEST_ID] = self._id

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            message["headers"].append((b"x-request-id", self._id.encode()))
        await self._send(message)

    async def failed(self, error: Exception, receive: Receive) -> None:
        known = problems.wire(error)
        self._code = known.code
        if known is problems.INTERNAL or known is problems.UNAVAILABLE:
            self._error = type(error).__name__
        if not self._status:
            await problems.answer(error, self._id)(self._scope, receive, self.send)

    def note(self, recorder: CallRecorder | None) -> None:
        """Count the request, write its line and note it: how it was asked and how it ended, never what was said."""
        method = self._scope["method"] if self._scope["method"] in METHODS else "other"
        route = getattr(self._scope.get("route"), "path", "unrouted")
        metrics.REQUESTS.labels(method, route, str(self._status)).inc()
        took = round((time.perf_counter() - self._start) * 1000, 2)
        told = {"method": method, "route": route, "status": self._status, "ms": took, "request_id": self._id}
        if self._error:
            log.error("request", **told, error=self._error)
        else:
            log.info("request", **told)
        if recorder is not None:
            self._record(recorder, method, route, took)

    def _record(self, recorder: CallRecorder, method: str, route: str, took: float) -> None:
        path = self._scope["path"]
        door = next((door for start, door in DOORS.items() if path.startswith(start)), None)
        if door is not None:
            grant = self._scope.get(GRANT)
            call = call_audit.Call(
                recorder.clock() - timedelta(milliseconds=took),
                door,
                f"{method} {route}",
                took,
                grant.host_id if grant else call_audit.NOBODY,
                grant.key_id if grant else None,
                status=self._status,
                code=self._code or problems.ROUTER_CODES.get(self._status),
                request_id=self._uuid,
            )
            recorder.note(call)


def is_loopback(name: str) -> bool:
    """Say whether a host name means this machine itself."""
    if name.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _name(host: bytes) -> str:
    """Return the name in a Host header, without its port."""
    text = host.decode("latin-1")
    return text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]


def _too_large(limit: int) -> TooLarge:
    return TooLarge("the request", "max_request_bytes", limit)
