"""POSTs to one address: on a connection of their own each, or on kept ones that follow each other.

A kept connection costs its keeper a look whether the other side has closed it; httpx looks at all that its pool keeps,
before and after each call, so that sixteen calls at a time cost more on kept connections than on new ones. So a client
of httpx is for one call at a time here, and keeps one connection.
"""

import time
from collections import deque
from collections.abc import Callable

import httpx

from afterturn_client.transport import Lost, Reply, Request, build, send

Made = tuple[httpx.URL, list[tuple[bytes, bytes]]]


class Clients:
    """Clients of httpx, lent for one call each and taken back; the last one back is the first to go out again.

    One that idled for `keep_seconds` is closed. With 0 there is one, which keeps no connection and is lent to all.
    Belongs to one event loop.
    """

    def __init__(
        self, make: Callable[[], httpx.AsyncClient], keep_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._make, self._keep_seconds, self._clock = make, keep_seconds, clock
        self.first = make()
        self._idle: deque[tuple[float, httpx.AsyncClient]] = deque()
        if keep_seconds > 0:
            self.back(self.first)

    async def lend(self) -> httpx.AsyncClient:
        """Return a client nobody uses; hand it `back`."""
        if self._keep_seconds <= 0:
            return self.first
        while self._idle and self._idle[0][0] < self._clock() - self._keep_seconds:
            await self._idle.popleft()[1].aclose()
        return self._idle.pop()[1] if self._idle else self._make()

    def back(self, client: httpx.AsyncClient) -> None:
        """Take a client back."""
        if self._keep_seconds > 0:
            self._idle.append((self._clock(), client))

    async def aclose(self) -> None:
        """Close what is not lent."""
        for _, client in self._idle:
            await client.aclose()
        self._idle.clear()
        await self.first.aclose()


class Posts:
    """POSTs of JSON that differ in path and body alone: httpx merges URL and headers once for each path, not each time.

    That takes it about as long as sending does.
    """

    def __init__(self, clients: Clients, timeout_s: float, *, traced: bool) -> None:
        self._clients, self._timeout_s, self._traced = clients, timeout_s, traced
        self._made: dict[str, Made] = {}

    async def send(self, path: str, body: bytes) -> Reply | Lost:
        """Send once, as `exchange` does."""
        url, headers = self._made.get(path) or self._make(path)
        timeouts = {"timeout": httpx.Timeout(self._timeout_s).as_dict()}
        outgoing = httpx.Request("POST", url, headers=headers, content=body, extensions=timeouts)
        client = await self._clients.lend()
        try:
            return await send(client, outgoing, self._timeout_s, traced=self._traced)
        finally:
            self._clients.back(client)

    def _make(self, path: str) -> Made:
        made = build(self._clients.first, Request("POST", path, body=b""))
        headers = [(name, value) for name, value in made.headers.raw if name.lower() != b"content-length"]
        return self._made.setdefault(path, (made.url, headers))
