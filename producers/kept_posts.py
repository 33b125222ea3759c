"""POSTs to a Memory Gateway on kept connections, over httpcore: the part of httpx that speaks HTTP.

What httpx's own transport puts around it (requests and responses of its own, its exceptions in the place of others,
time-outs for each step) costs as much as speaking does, and a worker posts twice for every turn.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import httpcore
import httpx
from afterturn_client.posts import HEADERS, KEEP, Transports
from afterturn_client.transport import MAX_REPLY_BYTES, Lost, Reply, parse_retry_after, read_body

from producers.wire import Wires

FAULTS = (
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
)


@dataclass(frozen=True, slots=True)
class Lane:
    """A pool of one connection, for one call at a time."""

    keep_s: float
    wires: Wires = field(default_factory=Wires)
    pool: httpcore.AsyncConnectionPool = field(init=False)

    def __post_init__(self) -> None:
        pool = httpcore.AsyncConnectionPool(
            max_connections=1, max_keepalive_connections=1, keepalive_expiry=self.keep_s, network_backend=self.wires
        )
        object.__setattr__(self, "pool", pool)

    async def aclose(self) -> None:
        """Close the connection, if there is one."""
        await self.pool.aclose()


class KeptPosts:
    """POSTs of JSON to addresses under `base_url` (http, no proxy), each sent exactly once within `timeout_s` in all.

    A connection that idled for less than `keep_s` is used again. Belongs to one event loop.
    """

    def __init__(
        self, base_url: str, timeout_s: float, keep_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._base_url, self._timeout_s = base_url, timeout_s
        self._lanes = Transports(lambda: Lane(keep_s), keep_s, clock)
        self._made: dict[str, tuple[httpcore.URL, list[tuple[bytes, bytes]]]] = {}

    async def send(self, path: str, body: bytes) -> Reply | Lost:
        """Return the answer, or what is known of a call without one. Raises RuntimeError when all is closed."""
        url, headers = self._made.get(path) or self._make(path)
        length = (b"content-length", b"%d" % len(body))
        request = httpcore.Request(b"POST", url, headers=[*headers, length], content=body)
        lane = await self._lanes.lend()
        try:
            return await self._sent(lane, request)
        finally:
            await self._lanes.back(lane)

    async def aclose(self) -> None:
        """Close what is open; a call under way closes its own when it ends."""
        await self._lanes.aclose()

    async def _sent(self, lane: Lane, request: httpcore.Request) -> Reply | Lost:
        started, lane.wires.begun = time.monotonic(), False
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await lane.pool.handle_async_request(request)
                try:
                    body = await _read(response)
                finally:
                    await response.aclose()
        except TimeoutError:
            return Lost("timeout", lane.wires.begun, time.monotonic() - started)
        except FAULTS:
            return Lost("connection", lane.wires.begun, time.monotonic() - started)
        retry_after = parse_retry_after(_header(response, b"retry-after"))
        return Reply(response.status, body, retry_after, time.monotonic() - started)

    def _make(self, path: str) -> tuple[httpcore.URL, list[tuple[bytes, bytes]]]:
        made = httpx.Request("POST", self._base_url + path, headers={**HEADERS, **KEEP})
        url = httpcore.URL(
            scheme=made.url.raw_scheme, host=made.url.raw_host, port=made.url.port, target=made.url.raw_path
        )
        headers = [(name, value) for name, value in made.headers.raw if name.lower() != b"content-length"]
        return self._made.setdefault(path, (url, headers))


class _Raw(httpx.AsyncByteStream):
    """The bytes of an answer, for httpx to decode."""

    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._response.aiter_stream():
            yield piece


async def _read(response: httpcore.Response) -> bytes | None:
    """Return the body; None when it is too long or cannot be decoded."""
    if _header(response, b"content-encoding") is not None:
        return await read_body(httpx.Response(response.status, headers=response.headers, stream=_Raw(response)))
    pieces = bytearray()
    async for piece in response.aiter_stream():
        pieces += piece
        if len(pieces) > MAX_REPLY_BYTES:
            return None
    return bytes(pieces)


def _header(response: httpcore.Response, name: bytes) -> str | None:
    if all(one.lower() != name for one, _ in response.headers):
        return None
    return httpx.Headers(response.headers)[name.decode()]
