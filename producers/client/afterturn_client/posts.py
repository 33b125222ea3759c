"""POSTs to one address, each on a connection of its own.

They go straight to httpx's transport. The other work of its client (redirects, authentication, cookies, hooks, a line
in the log) is not needed here, and takes about as long as sending does.
"""

from typing import Protocol

import httpx

from afterturn_client.transport import Lost, Reply, send_request

#: The headers of every POST.
HEADERS = {"accept": "application/json", "content-type": "application/json"}


class Sends(Protocol):
    """The protocol of a sender: it sends the body of a POST exactly once."""

    async def send(self, path: str, body: bytes) -> Reply | Lost:
        """Send once; return the answer, or a Lost for a call without one; raise for neither."""
        ...

    async def aclose(self) -> None:
        """Close the connections, and send no more."""
        ...


class Posts:
    """A sender of JSON POSTs that differ in path and body alone; URL and headers are built once for each path."""

    def __init__(self, transport: httpx.AsyncBaseTransport, base_url: str, timeout_s: float, *, traced: bool) -> None:
        self._transport, self._base_url = transport, base_url
        self._timeout_s, self._traced = timeout_s, traced
        self._timeouts = httpx.Timeout(timeout_s).as_dict()
        self._made: dict[str, tuple[httpx.URL, list[tuple[bytes, bytes]]]] = {}

    async def send(self, path: str, body: bytes) -> Reply | Lost:
        """Send once, like `exchange_once`."""
        url, headers = self._made.get(path) or self._make(path)
        outgoing = httpx.Request("POST", url, headers=headers, content=body, extensions={"timeout": self._timeouts})
        return await send_request(self._transport.handle_async_request, outgoing, self._timeout_s, traced=self._traced)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    def _make(self, path: str) -> tuple[httpx.URL, list[tuple[bytes, bytes]]]:
        # On a kept connection that the other side has dropped, "not sent" could not be told from "unknown".
        made = httpx.Request("POST", self._base_url + path, headers={**HEADERS, "connection": "close"})
        headers = [(name, value) for name, value in made.headers.raw if name.lower() != b"content-length"]
        return self._made.setdefault(path, (made.url, headers))
