"""A request to a gateway on a connection of its own, by asyncio and an HTTP parser in C.

What httpx does for it (a pool, cookies, redirects, locks that fit any event loop) costs several times the request, and
a delivery wants none of it: nothing is kept, nothing is followed, nothing is sent twice.
"""

import asyncio
import ssl
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import httptools
import httpx
from afterturn_client.transport import MAX_REPLY_BYTES, Lost, Reply, Request, parse_retry_after

#: Below this, an answer is news of an answer (100, 103).
FINAL_STATUS = 200


@dataclass(frozen=True, slots=True)
class Wire:
    """Sends requests to one address; `tls` is None where it is plain http. Belongs to no event loop."""

    host: str
    port: int
    authority: str
    path: str
    tls: ssl.SSLContext | None

    async def send(self, request: Request) -> Reply | Lost:
        """Send once and wait at most the request's time-out in all. Never raises for what the other side does."""
        started, talk = monotonic(), _Talk()
        try:
            async with asyncio.timeout(request.timeout_s):
                await asyncio.get_running_loop().create_connection(
                    lambda: talk, self.host, self.port, ssl=self.tls, server_hostname=self.host if self.tls else None
                )
                talk.say(self._written(request))
                status = await talk.heard
        except TimeoutError:
            return Lost("timeout", talk.begun, monotonic() - started)
        except OSError:
            return Lost("connection", talk.begun, monotonic() - started)
        finally:
            talk.hang_up()
        return Reply(status, talk.body(), parse_retry_after(talk.headers.get("retry-after")), monotonic() - started)

    def _written(self, request: Request) -> bytes:
        body = request.body or b""
        head = (
            f"{request.method} {self.path}{request.path} HTTP/1.1\r\nhost: {self.authority}\r\naccept: */*\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        return head.encode("ascii") + body


def wire(base_url: str) -> Wire:
    """Return the wire to a base URL without user, query and fragment, as the gateway's client checks it."""
    url = httpx.URL(base_url)
    tls = httpx.create_ssl_context() if url.scheme == "https" else None
    path = url.raw_path.decode("ascii").rstrip("/")
    return Wire(url.raw_host.decode("ascii"), url.port or (443 if tls else 80), url.netloc.decode("ascii"), path, tls)


@dataclass(slots=True, eq=False)
class _Talk(asyncio.Protocol):
    """One request and its answer. `begun`: something of the request may have left."""

    begun: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    heard: "asyncio.Future[int]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    _transport: Any = None
    _parser: Any = None
    _pieces: bytearray = field(default_factory=bytearray)
    _size: int = 0
    _too_long: bool = False
    _head_is_there: bool = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._parser = transport, httptools.HttpResponseParser(self)

    def say(self, written: bytes) -> None:
        """Send the request."""
        self.begun = True
        self._transport.write(written)

    def body(self) -> bytes | None:
        """Return the body; None when it is too long or coded in a way nobody asked for."""
        coded = self.headers.get("content-encoding", "identity").lower() != "identity"
        return None if self._too_long or coded else bytes(self._pieces)

    def hang_up(self) -> None:
        """Let the connection go, whatever is under way on it."""
        if self._transport is not None:
            self._transport.abort()
        # They hold this one: a circle that only the collector would find, once for each call.
        self._transport = self._parser = None
        if not self.heard.done():
            self.heard.cancel()
        elif not self.heard.cancelled():
            self.heard.exception()

    def data_received(self, data: bytes) -> None:
        if self._parser is None:
            return
        self._size += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._lost()
        if self._size > MAX_REPLY_BYTES and self._head_is_there:
            self._too_long = True
            self.on_message_complete()
        elif self._size > MAX_REPLY_BYTES:
            self._lost()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None and self._parser is not None and self._ends_with_the_connection():
            self.on_message_complete()
        self._lost()

    def on_message_begin(self) -> None:
        self.headers, self._head_is_there = {}, False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._head_is_there = True

    def on_body(self, body: bytes) -> None:
        self._pieces += body

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= FINAL_STATUS and not self.heard.done():
            self.heard.set_result(status)

    def _ends_with_the_connection(self) -> bool:
        return self._head_is_there and not {"content-length", "transfer-encoding"} & self.headers.keys()

    def _lost(self) -> None:
        if not self.heard.done():
            self.heard.set_exception(ConnectionError())
