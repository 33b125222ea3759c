"""POSTs to one address, each on a connection of its own or on kept ones.

They go straight to httpx's transport. The other work of its client (redirects, authentication, cookies, hooks, a line
in the log) is not needed here, and takes about as long as sending does.
"""

from collections.abc import Callable
from typing import Protocol
from urllib.parse import urlsplit

import httpx

from afterturn_client.errors import InvalidRequestError
from afterturn_client.transport import Lost, Reply, proxy_of, send_request, trusted_certificates

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
    """A sender of JSON POSTs that differ in path and body alone; URL and headers are built once for each path.

    With `keep_s` of 0 each call has a connection of its own: on a kept one that the other side drops at the moment of a
    call, "not sent" could not be told from "unknown". Otherwise a connection that idled for less than `keep_s` seconds
    is used again: keep that well below the other side's limit. `traceparent` returns the header of the current trace.
    `transport` is a caller's own, which tells nothing of its progress. Belongs to one event loop. Raises
    InvalidRequestError where the environment names a proxy that does not speak HTTP.
    """

    def __init__(
        self,
        base_url: str,
        timeout_s: float,
        *,
        keep_s: float = 0.0,
        transport: httpx.AsyncBaseTransport | None = None,
        traceparent: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._transport = transport or _build_transport(base_url, keep_s)
        self._base_url, self._timeout_s, self._traced = base_url, timeout_s, transport is None
        self._kept, self._traceparent = keep_s > 0, traceparent
        self._timeouts = httpx.Timeout(timeout_s).as_dict()
        self._made: dict[str, tuple[httpx.URL, list[tuple[bytes, bytes]]]] = {}
        self._under_way, self._closed = 0, False

    async def send(self, path: str, body: bytes) -> Reply | Lost:
        """Send once, like `exchange_once`. Raises RuntimeError after `aclose`."""
        if self._closed:
            raise RuntimeError("the sender is closed")
        url, headers = self._made.get(path) or self._make(path)
        if told := self._traceparent():
            headers = [*headers, (b"traceparent", told.encode())]
        outgoing = httpx.Request("POST", url, headers=headers, content=body, extensions={"timeout": self._timeouts})
        self._under_way += 1
        try:
            return await send_request(
                self._transport.handle_async_request, outgoing, self._timeout_s, traced=self._traced
            )
        finally:
            self._under_way -= 1
            await self._close_unused()

    async def aclose(self) -> None:
        """Refuse further calls, and close the connections after calls under way have ended."""
        self._closed = True
        await self._close_unused()

    async def _close_unused(self) -> None:
        if self._closed and not self._under_way:
            await self._transport.aclose()

    def _make(self, path: str) -> tuple[httpx.URL, list[tuple[bytes, bytes]]]:
        connection = {} if self._kept else {"connection": "close"}
        made = httpx.Request("POST", self._base_url + path, headers={**HEADERS, **connection})
        headers = [(name, value) for name, value in made.headers.raw if name.lower() != b"content-length"]
        return self._made.setdefault(path, (made.url, headers))


def _build_transport(base_url: str, keep_s: float) -> httpx.AsyncBaseTransport:
    proxy = proxy_of(base_url)
    if proxy is not None and urlsplit(proxy).scheme not in {"http", "https"}:
        raise InvalidRequestError("the environment's proxy must look like http://host:port")
    kept = None if keep_s > 0 else 0
    return httpx.AsyncHTTPTransport(
        verify=trusted_certificates(base_url),
        proxy=proxy,
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=kept, keepalive_expiry=keep_s or None),
    )
