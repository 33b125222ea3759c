"""Sends POSTs to a Memory Gateway on kept connections, over aiohttp.

A worker posts twice for every turn, and httpx takes three times the processor time for each.
"""

import asyncio
import io
import select
import time
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urlsplit
from weakref import WeakSet

import aiohttp
import httpx
import yarl
from afterturn_client.errors import InvalidRequestError
from afterturn_client.posts import HEADERS
from afterturn_client.transport import MAX_REPLY_BYTES, Lost, Reply, parse_retry_after, proxy_of, trusted_certificates
from aiohttp.client import ClientTimeout
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http_exceptions import ContentEncodingError

from store.tracing import current_traceparent

#: A body of more bytes is sent in pieces, so that a cancelled call sends no more of it.
WHOLE_BYTES = 1 << 18
#: No time-outs of single steps, because each call is limited as a whole.
NO_TIMEOUTS: Final = ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)


@dataclass(slots=True)
class SendState:
    """The state of a request: whether bytes of it may have been sent, because it got a connection."""

    begun: bool = False


#: The state of the current call, for the connection that it requests.
_SEND_STATE: ContextVar[SendState] = ContextVar("send_state")


class KeepAliveClient:
    """A sender of JSON POSTs to URLs under `base_url`, each sent exactly once within `timeout_s` seconds in all.

    A connection that idled for less than `keep_s` seconds is used again: keep that well below the gateway's limit,
    since one that it closes at the moment of a call makes that call's outcome unknown. With 0 each call has its own.
    Belongs to one event loop. Raises InvalidRequestError where the environment names a proxy that does not speak HTTP.
    """

    def __init__(self, base_url: str, timeout_s: float, keep_s: float) -> None:
        self._base_url, self._timeout_s, self._keep_s = base_url, timeout_s, keep_s
        self._proxy, self._trusted = _http_proxy(base_url), trusted_certificates(base_url)
        self._urls: dict[str, yarl.URL] = {}
        self._session: aiohttp.ClientSession | None = None
        self._under_way, self._closed = 0, False

    async def send(self, path: str, body: bytes) -> Reply | Lost:
        """Send once; return the answer, or a Lost for a call without one. Raises RuntimeError after `aclose`."""
        if self._closed:
            raise RuntimeError("the client is closed")
        self._under_way += 1
        try:
            return await self._send_once(self._urls.get(path) or self._build_url(path), body)
        finally:
            self._under_way -= 1
            await self._close_unused()

    async def aclose(self) -> None:
        """Refuse further calls and close the connections, after calls under way have ended."""
        self._closed = True
        await self._close_unused()

    async def _close_unused(self) -> None:
        if self._closed and not self._under_way and self._session is not None:
            await self._session.close()

    async def _send_once(self, url: yarl.URL, body: bytes) -> Reply | Lost:
        started, state = time.monotonic(), SendState()
        _SEND_STATE.set(state)
        data = body if len(body) <= WHOLE_BYTES else io.BytesIO(body)
        lost: Literal["timeout", "connection"]
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await self._open().post(
                    url, data=data, headers=_trace_headers(), proxy=self._proxy, allow_redirects=False
                )
                try:
                    answer = await _read_body(response)
                finally:
                    # After a completely read answer the connection is kept already.
                    response.close()
        except TimeoutError:
            lost = "timeout"
        except (aiohttp.ClientError, OSError, UnicodeError):
            lost = "connection"
        else:
            retry_after = parse_retry_after(response.headers.get("retry-after"))
            return Reply(response.status, answer, retry_after, time.monotonic() - started)
        return Lost(lost, state.begun, time.monotonic() - started)

    def _open(self) -> aiohttp.ClientSession:
        """Return the session, created at the first call on its event loop."""
        if self._session is None:
            kept: dict[str, Any] = {"keepalive_timeout": self._keep_s} if self._keep_s > 0 else {"force_close": True}
            self._session = aiohttp.ClientSession(
                connector=_Connector(limit=0, ssl=self._trusted, **kept),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=HEADERS,
                skip_auto_headers=("user-agent", "accept-encoding"),
                timeout=NO_TIMEOUTS,
            )
        return self._session

    def _build_url(self, path: str) -> yarl.URL:
        # Parsed by httpx, which also validated the address.
        return self._urls.setdefault(path, yarl.URL(str(httpx.URL(self._base_url + path)), encoded=True))


class _Connector(aiohttp.TCPConnector):
    """A connector that reuses a kept connection only while no bytes have arrived on it.

    Bytes mean the end of the connection, which the event loop may not have seen yet, or an unrequested answer.
    """

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self._used = WeakSet[ResponseHandler]()

    async def connect(self, req: aiohttp.ClientRequest, traces: list[Any], timeout: ClientTimeout) -> Connection:  # noqa: ASYNC109 - aiohttp names it
        """Return a connection for this request alone."""
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            if protocol is None or protocol not in self._used or not (protocol.should_close or _is_readable(protocol)):
                break
            connection.close()
        if protocol is not None:
            self._used.add(protocol)
        # Set only here, unlike aiohttp's trace events: nothing was sent on a connection that is closed above.
        _SEND_STATE.get().begun = True
        return connection


def _is_readable(protocol: ResponseHandler) -> bool:
    sock = protocol.transport and protocol.transport.get_extra_info("socket")
    if not sock:
        return True
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLIN)
    return bool(poll.poll(0))


async def _read_body(response: aiohttp.ClientResponse) -> bytes | None:
    """Return the body; None when it is too long or cannot be decoded."""
    pieces = bytearray()
    try:
        async for piece in response.content.iter_any():
            pieces += piece
            if len(pieces) > MAX_REPLY_BYTES:
                return None
    except aiohttp.ClientPayloadError as error:
        if isinstance(error.__cause__, ContentEncodingError):
            return None
        raise
    return bytes(pieces)


def _trace_headers() -> dict[str, str] | None:
    """Return the traceparent header of the current trace, None where there is none."""
    return {"traceparent": traceparent} if (traceparent := current_traceparent()) else None


def _http_proxy(base_url: str) -> str | None:
    proxy = proxy_of(base_url)
    if proxy is not None and urlsplit(proxy).scheme not in {"http", "https"}:
        raise InvalidRequestError("the environment's proxy must look like http://host:port")
    return proxy
