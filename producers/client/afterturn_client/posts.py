"""POSTs to one address: on a connection of their own each, or on kept ones that follow each other.

They go straight to httpx's transport. What its client does around that (redirects, authentication, cookies, hooks, a
line in the log), nobody asks for here, and it takes about as long as sending does.

A kept connection costs its keeper a look whether the other side has closed it; httpx looks at all that its pool keeps,
before and after each call, so that sixteen calls at a time cost more on kept connections than on new ones. So a
transport is for one call at a time here, and keeps one connection.
"""

import time
from collections import deque
from collections.abc import Callable

import httpx

from afterturn_client.transport import Lost, Reply, send


class Transports:
    """Transports of httpx, lent for one call each and taken back; the last one back is the first to go out again.

    One that idled for `keep_seconds` is closed. With 0 there is one, which keeps no connection and is lent to all.
    Belongs to one event loop.
    """

    def __init__(
        self,
        make: Callable[[], httpx.AsyncBaseTransport],
        keep_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make, self._keep_seconds, self._clock = make, keep_seconds, clock
        self._first, self._closed = make(), False
        self._idle: deque[tuple[float, httpx.AsyncBaseTransport]] = deque()
        if keep_seconds > 0:
            self._idle.append((clock(), self._first))

    async def lend(self) -> httpx.AsyncBaseTransport:
        """Return a transport nobody uses; hand it `back`. Raises RuntimeError when all is closed."""
        if self._closed:
            raise RuntimeError("the client is closed")
        if self._keep_seconds <= 0:
            return self._first
        while self._idle and self._idle[0][0] < self._clock() - self._keep_seconds:
            await self._idle.popleft()[1].aclose()
        return self._idle.pop()[1] if self._idle else self._make()

    async def back(self, transport: httpx.AsyncBaseTransport) -> None:
        """Take a transport back; close it when all was closed meanwhile."""
        if self._closed:
            await transport.aclose()
        elif self._keep_seconds > 0:
            self._idle.append((self._clock(), transport))

    async def aclose(self) -> None:
        """Close what is not lent, and the rest as it comes back; lend no more."""
        self._closed = True
        for transport in [one for _, one in self._idle] if self._keep_seconds > 0 else [self._first]:
            await transport.aclose()
        self._idle.clear()


class Posts:
    """POSTs of JSON that differ in path and body alone; an address and its headers are made once for each path."""

    def __init__(
        self, transports: Transports, base_url: str, headers: dict[str, str], timeout_s: float, *, traced: bool
    ) -> None:
        self._transports, self._base_url, self._headers = transports, base_url, headers
        self._timeout_s, self._traced = timeout_s, traced
        self._timeouts = httpx.Timeout(timeout_s).as_dict()
        self._made: dict[str, tuple[httpx.URL, list[tuple[bytes, bytes]]]] = {}

    async def send(self, path: str, body: bytes) -> Reply | Lost:
        """Send once, as `exchange` does."""
        url, headers = self._made.get(path) or self._make(path)
        outgoing = httpx.Request("POST", url, headers=headers, content=body, extensions={"timeout": self._timeouts})
        transport = await self._transports.lend()
        try:
            return await send(transport.handle_async_request, outgoing, self._timeout_s, traced=self._traced)
        finally:
            await self._transports.back(transport)

    def _make(self, path: str) -> tuple[httpx.URL, list[tuple[bytes, bytes]]]:
        made = httpx.Request(
            "POST", self._base_url + path, headers={**self._headers, "content-type": "application/json"}
        )
        headers = [(name, value) for name, value in made.headers.raw if name.lower() != b"content-length"]
        return self._made.setdefault(path, (made.url, headers))
