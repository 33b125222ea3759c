"""POSTs of JSON to one address over connections of our own, kept from one call to the next.

For a process that hands over turns all day: what httpx and the layers below it do around a call takes ten times as long
as sending it. A connection is for one call at a time, so that nobody's answer can be taken for another's.
"""

import asyncio
import select
import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import httpx
from afterturn_client.transport import MAX_REPLY_BYTES, Lost, Reply, is_loopback, parse_retry_after
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

#: Begins with the only things that differ from call to call: path and length.
_HEAD = (
    "POST {path} HTTP/1.1\r\nhost: {host}\r\naccept: application/json\r\naccept-encoding: identity\r\n"
    "content-type: application/json\r\ncontent-length: "
)


class KeptPosts:
    """Sends each body once and waits at most `timeout_s` in all.

    A connection that idled for less than `keep_s` seconds is used again: keep that well below what the other side
    allows, since one that it closes at the moment of a call makes that call's outcome unknown. `base_url` has passed
    `check_base_url`. Belongs to one event loop; close it.
    """

    def __init__(
        self, base_url: str, timeout_s: float, keep_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._url = httpx.URL(base_url)
        self._timeout_s, self._keep_s, self._clock = timeout_s, keep_s, clock
        self._trusted = _trusted(base_url) if self._url.scheme == "https" else None
        self._heads: dict[str, bytes] = {}
        self._idle: deque[tuple[float, _Line]] = deque()
        self._closed = False

    async def send(self, path: str, body: bytes) -> Reply | Lost:
        """Send once; what went wrong is a value, which says whether anything can have left."""
        started, left = time.monotonic(), False
        line: _Line | None = None
        try:
            async with asyncio.timeout(self._timeout_s):
                line = self._rested() or await self._open()
                left = True
                answer = await line.ask(b"%b%d\r\n\r\n%b" % (self._head(path), len(body), body))
            return answer.reply(time.monotonic() - started)
        except TimeoutError:
            return Lost("timeout", left, time.monotonic() - started)
        except (OSError, UnicodeError):
            return Lost("connection", left, time.monotonic() - started)
        finally:
            if line is not None:
                self._back(line)

    async def aclose(self) -> None:
        """Close what idles, and the rest as it comes back; open no more."""
        self._closed = True
        while self._idle:
            self._idle.pop()[1].close()

    def _rested(self) -> "_Line | None":
        """Return the connection that was used last, if it still stands; close those that idled too long."""
        while self._idle and self._idle[0][0] < self._clock() - self._keep_s:
            self._idle.popleft()[1].close()
        while self._idle:
            _, line = self._idle.pop()
            if line.stands():
                return line
            line.close()
        return None

    async def _open(self) -> "_Line":
        if self._closed:
            raise RuntimeError("the client is closed")
        port = self._url.port or (443 if self._trusted else 80)
        loop = asyncio.get_running_loop()
        host = self._url.raw_host.decode("ascii")
        _, line = await loop.create_connection(_Line, host, port, ssl=self._trusted)
        return line

    def _back(self, line: "_Line") -> None:
        if not self._closed and line.may_go_on():
            self._idle.append((self._clock(), line))
        else:
            line.close()

    def _head(self, path: str) -> bytes:
        """Return a request up to its length. The path is ours and the address was checked: no line ends in them."""
        if (known := self._heads.get(path)) is not None:
            return known
        whole = httpx.URL(str(self._url).rstrip("/") + path)
        made = _HEAD.format(path=whole.raw_path.decode("ascii"), host=whole.netloc.decode("ascii"))
        return self._heads.setdefault(path, made.encode("ascii"))


def _trusted(base_url: str) -> ssl.SSLContext:
    made = httpx.create_ssl_context(trust_env=not is_loopback(base_url))
    made.set_alpn_protocols(["http/1.1"])
    return made


class _Answer:
    """One answer, as the parser tells of it. What comes after its end is nobody's."""

    def __init__(self) -> None:
        self._parser = HttpResponseParser(self)
        self._body, self._read = bytearray(), 0
        self._retry_after: str | None = None
        self._status = 0
        self._bounded = self._encoded = self._whole = self._goes_on = False
        #: Set when there is nothing more to wait for.
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def reply(self, seconds: float) -> Reply:
        """Return what was answered; the body is None when it is too long, or encoded although nobody asked for that."""
        body = bytes(self._body) if self._whole and not self._encoded else None
        return Reply(self._status, body, parse_retry_after(self._retry_after), seconds)

    @property
    def leaves_open(self) -> bool:
        """Whether it is here to its end and alone, and the other side hears another request after it."""
        return self._goes_on

    def feed(self, data: bytes) -> bool:
        """Read on; False: the connection is of no use any more."""
        self._read += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self._fail()
            return False
        if self._read > MAX_REPLY_BYTES and not self.ended.done():
            self._end() if self._status else self._fail()
        return not self.ended.done() or self.leaves_open

    def cut(self) -> None:
        """Take note that the connection ended, which may be how the answer was to end."""
        self._whole = self._whole or (self._status > 0 and not self._bounded)
        self._end() if self._whole else self._fail()

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Take note of an answer that nobody asked for."""
        self._goes_on = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep what matters of the head."""
        if self._whole:
            return
        match name.lower():
            case b"retry-after":
                self._retry_after = value.decode("latin-1")
            case b"content-length" | b"transfer-encoding":
                self._bounded = True
            case b"content-encoding":
                self._encoded = value.strip().lower() != b"identity"

    def on_headers_complete(self) -> None:
        """Keep the status, unless it only announces another."""
        status = self._parser.get_status_code()
        if not self._whole and status >= httpx.codes.OK:
            self._status = status

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body."""
        if not self._whole:
            self._body += body

    def on_message_complete(self) -> None:
        """End with the answer itself."""
        if self._status and not self._whole:
            self._whole, self._goes_on = True, self._bounded and self._parser.should_keep_alive()
            self._end()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def _fail(self) -> None:
        if not self.ended.done():
            self.ended.set_exception(ConnectionError("the connection ended without an answer"))


class _Line(asyncio.Protocol):
    """One connection, and the one answer that is awaited on it. What comes unasked ends it."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._answer: _Answer | None = None

    async def ask(self, request: bytes) -> _Answer:
        """Send a request and return the answer. Raises ConnectionError where there is none."""
        self._answer = answer = _Answer()
        self._transport.write(request)
        await answer.ended
        return answer

    def may_go_on(self) -> bool:
        """Say whether the last answer is here to its end, and another may be asked for."""
        answer = self._answer
        if answer is None or not answer.leaves_open or self._transport.is_closing():
            return False
        # Who answers before all of a request is there may never read the rest of it.
        return self._transport.get_write_buffer_size() == 0

    def stands(self) -> bool:
        """Say whether the connection is open and quiet: its end, or what nobody asked for, may wait to be read."""
        if self._transport.is_closing():
            return False
        look = select.poll()
        look.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return not look.poll(0)

    def close(self) -> None:
        """End the connection; may be called twice. What of a request has not left by now never does."""
        self._transport.abort()

    # What the event loop calls.

    def connection_made(self, transport: Any) -> None:
        """Keep the way to the other side; uvloop's is of no class of asyncio's."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Read on in the answer."""
        if self._answer is None or self._answer.ended.done() or not self._answer.feed(data):
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - a cut line is a cut line
        """Have whoever waits for an answer wait for no more of it."""
        if self._answer is not None:
            self._answer.cut()
