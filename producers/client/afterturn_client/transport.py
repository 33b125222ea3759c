"""Sends one request and returns one outcome; httpx's exceptions become values here.

An httpx exception keeps the request, and with it the key and the text. So it is never raised nor chained:
`exchange_once` returns either a `Reply` or a `Lost`.
"""

import asyncio
import ipaddress
import json
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache, partial
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from afterturn_client.arguments import check_text
from afterturn_client.errors import InvalidRequestError
from afterturn_client.lost_answers import LATE, find_cause
from afterturn_client.tracing import current_traceparent

#: A client of httpx: one that blocks, or one that awaits.
C = TypeVar("C", httpx.Client, httpx.AsyncClient)

#: Variables of the environment that name trusted certificates.
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
#: An answer longer than this many bytes is read no further.
MAX_REPLY_BYTES = 32 * 1024 * 1024

#: What httpx raises before a byte of the request has left.
UNSENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.LocalProtocolError,
)

#: Sends a request and returns the answer, its body not yet read.
SendStreamed = Callable[[httpx.Request], Awaitable[httpx.Response]]


@dataclass(frozen=True, slots=True)
class Request:
    """A request: `path` relative to the base URL, percent-encoded; `body` JSON bytes or None; `headers` of its own."""

    method: str
    path: str
    params: Mapping[str, str | int] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)
    timeout_s: float = 10.0
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Reply:
    """The service answered. `body` is None when it was too long or could not be decoded."""

    status: int
    body: bytes | None = field(repr=False)
    retry_after: float | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Lost:
    """No answer came. `sent` is False only when it is certain that nothing left; `cause`: what that means, if known."""

    category: Literal["timeout", "connection"]
    sent: bool
    seconds: float = 0.0
    cause: str = ""


def encode_json(value: object) -> bytes:
    """Return compact UTF-8 JSON. Raises InvalidRequestError for what JSON or UTF-8 cannot carry."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        problem = type(error).__name__
    raise InvalidRequestError(f"the request cannot be written as UTF-8 JSON ({problem})")


def check_base_url(base_url: str) -> str:
    """Return the URL without a trailing slash. Raises InvalidRequestError, which never shows the URL."""
    try:
        parts = urlsplit(check_text("base_url", base_url))
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
        httpx.URL(base_url)
    except (ValueError, httpx.InvalidURL):
        good = False
    if not good or base_url != base_url.strip() or "?" in base_url or "#" in base_url:
        raise InvalidRequestError("base_url must look like http://host:port or https://host/path")
    if parts.path.rstrip("/").endswith("/api/v1"):
        raise InvalidRequestError("base_url is the service's address without /api/v1, which every call has in its path")
    if "@" in parts.netloc:
        # httpx logs the URL of every request, and would send these as basic authentication in the place of the key.
        raise InvalidRequestError("base_url must hold no user and no password: the key says who asks")
    return base_url.rstrip("/")


def check_way(base_url: str, *, allow_http: bool) -> None:
    """Raise InvalidRequestError where a key would go to another machine in clear text, unless that is allowed."""
    if urlsplit(base_url).scheme == "http" and not allow_http and not is_loopback_url(base_url):
        raise InvalidRequestError(
            "base_url must begin with https://: over plain http the key could be read on the way. "
            "Plain http is for this machine, or where allow_http=True (in settings: client.allow_http) says so"
        )


def is_loopback_url(base_url: str) -> bool:
    """Return whether the URL names this machine, for which no proxy of the environment is used."""
    host = urlsplit(base_url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def key_options(base_url: str, key: str) -> dict[str, Any]:
    """Return the options of an httpx client that sends this key to this URL and nowhere else: see `open_client`.

    No proxy of the environment stands before this machine, redirects are not followed, and over plain http, which no
    redirect leads away from, certificates are not read: that takes a while.
    """
    return {
        "base_url": base_url,
        "headers": {"authorization": f"Bearer {key}", "accept": "application/json"},
        "trust_env": not is_loopback_url(base_url),
        "verify": base_url.startswith("https:"),
        "follow_redirects": False,
    }


def open_client(kind: type[C], **options: Any) -> C:
    """Return an httpx client. Raises InvalidRequestError where the environment's proxy or certificates are no use."""
    try:
        return kind(**options)
    except ImportError:
        problem = "a SOCKS proxy, which needs the package socksio (`pip install socksio`)"
    except (ValueError, OSError, httpx.InvalidURL) as error:
        problem = f"a proxy or certificates that cannot be used ({type(error).__name__})"
    raise InvalidRequestError(
        f"the environment (HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE) names {problem}; NO_PROXY names hosts without one"
    )


def trusted_certificates(base_url: str) -> ssl.SSLContext:
    """Return httpx's trusted certificates, cached: reading them takes longer than a hundred calls."""
    named = () if is_loopback_url(base_url) else tuple(os.environ.get(name) for name in CERTIFICATES)
    return _read_certificates(named)


@lru_cache(maxsize=8)
def _read_certificates(named: tuple[str | None, ...]) -> ssl.SSLContext:
    """Return the certificates that the environment names; those of httpx where none may be named."""
    return httpx.create_ssl_context(trust_env=bool(named))


def proxy_of(base_url: str) -> str | None:
    """Return the environment's proxy for this URL; None for this machine."""
    parts = urlsplit(base_url)
    if is_loopback_url(base_url) or proxy_bypass(parts.netloc):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


class SendTrace:
    """A listener of httpcore's trace that records whether the request has begun to leave."""

    def __init__(self, *, known: bool) -> None:
        self.begun = not known

    async def watch(self, event: str, _info: Mapping[str, Any]) -> None:
        """Handle one trace event."""
        self.begun = self.begun or event.endswith("send_request_headers.started")


async def exchange_once(client: httpx.AsyncClient, request: Request, *, traced: bool = True) -> Reply | Lost:
    """Send once and wait at most `timeout_s` seconds in all, even while bytes arrive.

    `traced` is False for a transport of the caller's own that tells nothing of its progress: then a
    time-out counts as sent.
    """
    return await send_request(
        partial(client.send, stream=True), build_request(client, request), request.timeout_s, traced=traced
    )


async def send_request(call: SendStreamed, outgoing: httpx.Request, timeout_s: float, *, traced: bool) -> Reply | Lost:
    """Send a request that is built already, like `exchange_once`; its own time-outs apply to each step."""
    started = time.monotonic()
    sent = SendTrace(known=traced)
    outgoing.extensions["trace"] = sent.watch
    try:
        async with asyncio.timeout(timeout_s):
            response = await call(outgoing)
            try:
                body = await _read_body(response)
            finally:
                await response.aclose()
    except TimeoutError:
        return Lost("timeout", sent.begun, time.monotonic() - started, LATE)
    except httpx.RequestError as error:
        return _build_lost(error, time.monotonic() - started)
    return _build_reply(response, body, time.monotonic() - started)


def exchange_blocking(client: httpx.Client, request: Request) -> Reply | Lost:
    """Send once; each step of it (connect, write, every read) waits at most `timeout_s` seconds."""
    started = time.monotonic()
    try:
        response = client.send(build_request(client, request), stream=True)
        try:
            body = _read_blocking(response)
        finally:
            response.close()
    except httpx.RequestError as error:
        return _build_lost(error, time.monotonic() - started)
    return _build_reply(response, body, time.monotonic() - started)


def parse_retry_after(value: str | None) -> float | None:
    """Return a Retry-After header in seconds from now (delta or HTTP date), None when it is absent or invalid."""
    if value is None:
        return None
    if value.strip().isascii() and value.strip().isdigit():
        return float(value.strip()[:9])
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    # Of a date without a zone that of this machine would be guessed.
    return max(0.0, (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - time.time())


def build_request(client: httpx.AsyncClient | httpx.Client, request: Request) -> httpx.Request:
    """Return the httpx request of a request."""
    headers = dict(request.headers) | ({"content-type": "application/json"} if request.body is not None else {})
    if traceparent := current_traceparent():
        headers["traceparent"] = traceparent
    return client.build_request(
        request.method,
        request.path,
        params=dict(request.params) or None,
        content=request.body,
        headers=headers,
        timeout=request.timeout_s,
    )


async def read_bounded(response: httpx.Response, longest: int) -> bytes | None:
    """Return the body of an answer; None where it has more than `longest` bytes. Raises httpx.HTTPError."""
    pieces = bytearray()
    async for piece in response.aiter_bytes():
        pieces += piece
        if len(pieces) > longest:
            return None
    return bytes(pieces)


async def _read_body(response: httpx.Response) -> bytes | None:
    try:
        return await read_bounded(response, MAX_REPLY_BYTES)
    except httpx.DecodingError:
        return None


def _read_blocking(response: httpx.Response) -> bytes | None:
    pieces = bytearray()
    try:
        for piece in response.iter_bytes():
            pieces += piece
            if len(pieces) > MAX_REPLY_BYTES:
                return None
    except httpx.DecodingError:
        return None
    return bytes(pieces)


def _build_reply(response: httpx.Response, body: bytes | None, seconds: float) -> Reply:
    return Reply(response.status_code, body, parse_retry_after(response.headers.get("retry-after")), seconds)


def _build_lost(error: httpx.RequestError, seconds: float) -> Lost:
    category: Literal["timeout", "connection"] = (
        "timeout" if isinstance(error, httpx.TimeoutException) else "connection"
    )
    return Lost(category, sent=not isinstance(error, UNSENT), seconds=seconds, cause=find_cause(error))
