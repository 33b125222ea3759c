"""Rules for all external models: allowed URLs, request size, response size.

A URL is absolute and https; http is for this machine, or where it was allowed. Redirects are followed within one
origin and with the same method and body, or not at all. Request and reply have a size limit, the whole call a time
limit. No error holds the key, the body or the reply; httpx's own exceptions, which do, are caught here.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self
from urllib.parse import SplitResult, urlsplit, urlunsplit

import httpx
import orjson

from embeddings.loopback import is_loopback

Category = Literal[
    "timeout",
    "connection",
    "environment",
    "unauthorized",
    "rate_limited",
    "unavailable",
    "http_error",
    "redirect",
    "too_large",
    "invalid_reply",
]

#: Redirects that keep method and body; the others would make a GET of the call.
KEEPING = frozenset({307, 308})
MAX_REDIRECTS = 3
#: What an error of the category `environment` says.
ENVIRONMENT = (
    "the environment (HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE) names a proxy or certificates that cannot be used: a "
    "SOCKS proxy needs the package socksio (`pip install socksio`), and NO_PROXY names hosts without a proxy"
)
_UNAUTHORIZED = frozenset({401, 403})
_TOO_MANY = 429
_SERVER_ERRORS = 500


class EndpointError(Exception):
    """A failed call: its category, its HTTP status, and the seconds of Retry-After, where there are any."""

    def __init__(self, category: Category, *, status: int | None = None, retry_after: float | None = None) -> None:
        said = ENVIRONMENT if category == "environment" else category
        super().__init__(said if status is None else f"{said}, status {status}")
        self.category: Category = category
        self.status = status
        self.retry_after = retry_after

    @property
    def passing(self) -> bool:
        """Whether a retry of the same call may succeed."""
        return self.category in {"timeout", "connection", "rate_limited", "unavailable"}


@dataclass(frozen=True, slots=True)
class EndpointLimits:
    """Limits of a call: bytes of request and reply, and seconds for the whole of it, redirects included."""

    request_bytes: int
    reply_bytes: int
    seconds: float


def endpoint_url(base_url: str, path: str, *, allow_http: bool = False) -> str:
    """Return the URL of `path` (like `/v1/responses`) below a base URL.

    The base may end in the whole path, in `/v1`, or in the host. Query and fragment are dropped. Raises ValueError,
    which never shows the URL.
    """
    parts = _parse_base_url(base_url)
    if not parts.scheme or not parts.netloc:
        raise ValueError("must be an absolute URL like https://host or https://host/v1, not a domain alone")
    if parts.scheme not in {"https", "http"} or not parts.hostname:
        raise ValueError("must begin with https://")
    if "@" in parts.netloc:
        raise ValueError("must hold no user and no password: the key says who asks")
    if parts.scheme == "http" and not allow_http and not is_loopback(parts.hostname):
        raise ValueError("must begin with https://; plain http is for this machine, or where allow_http says so")
    return urlunsplit((parts.scheme, parts.netloc, _whole_path(parts.path, path), "", ""))


def _parse_base_url(base_url: str) -> SplitResult:
    try:
        parts = urlsplit(base_url.strip())
        _ = parts.port
        httpx.URL(base_url.strip())
    except (ValueError, httpx.InvalidURL):
        raise ValueError("is no URL") from None
    return parts


def _whole_path(base: str, path: str) -> str:
    """Return the base with the part of the path appended that it lacks."""
    base = base.rstrip("/")
    if base.endswith(path):
        return base
    version = path[: path.index("/", 1)]
    return base + (path.removeprefix(version) if base.endswith(version) else path)


class Endpoint:
    """A client that posts JSON to one URL and returns the JSON object of the answer. Belongs to one event loop."""

    def __init__(self, url: str, key: str, limits: EndpointLimits) -> None:
        """Keep URL (as `endpoint_url` returns it), key and limits. An empty key is not sent."""
        self._url = httpx.URL(url)
        self._limits = limits
        self._headers = {
            "content-type": "application/json",
            "accept": "application/json",
            # The limit counts the bytes that are read, so the reply must come uncompressed.
            "accept-encoding": "identity",
            **({"authorization": f"Bearer {key}"} if key else {}),
        }
        self._http: httpx.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"Endpoint({self._url.host!r})"

    async def post(self, body: Mapping[str, object]) -> Mapping[str, object]:
        """Post the body and return the JSON object of the answer; raises EndpointError and nothing else."""
        content = _encode_body(body)
        if len(content) > self._limits.request_bytes:
            raise EndpointError("too_large")
        outcome = await self._exchange(content)
        if isinstance(outcome, _Failure):
            raise EndpointError(outcome.category, status=outcome.status, retry_after=outcome.retry_after)
        return outcome.value

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()

    async def _exchange(self, content: bytes) -> "_Success | _Failure":
        """Make the call and return its answer or failure as a value: a chained exception would carry key and text."""
        http = self._http = self._http or _open_client(self._url.host)
        if http is None:
            return _Failure("environment")
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await self._follow(http, content)
        except TimeoutError:
            return _Failure("timeout")
        except httpx.TimeoutException:
            return _Failure("timeout")
        except httpx.HTTPError:
            return _Failure("connection")

    async def _follow(self, http: httpx.AsyncClient, content: bytes) -> "_Success | _Failure":
        url = self._url
        for _ in range(MAX_REDIRECTS + 1):
            request = http.build_request(
                "POST", url, content=content, headers=self._headers, timeout=self._limits.seconds
            )
            response = await http.send(request, stream=True)
            try:
                if not response.has_redirect_location:
                    return await self._read(response)
                target = _redirect_target(url, response)
            finally:
                await response.aclose()
            if target is None:
                return _Failure("redirect", response.status_code)
            url = target
        return _Failure("redirect")

    async def _read(self, response: httpx.Response) -> "_Success | _Failure":
        if not response.is_success:
            return _Failure.of(response)
        pieces = bytearray()
        async for piece in response.aiter_raw():
            pieces += piece
            if len(pieces) > self._limits.reply_bytes:
                return _Failure("too_large", response.status_code)
        return _Success.of(bytes(pieces)) or _Failure("invalid_reply", response.status_code)


def _open_client(host: str) -> httpx.AsyncClient | None:
    """Return a client, past every proxy for this machine; None where the environment's proxy is no use.

    The errors are dropped: they show the proxy's password.
    """
    try:
        return httpx.AsyncClient(trust_env=not is_loopback(host), follow_redirects=False)
    except (ImportError, ValueError, OSError, httpx.HTTPError):
        return None


@dataclass(frozen=True, slots=True)
class _Success:
    value: Mapping[str, object] = field(repr=False)

    @classmethod
    def of(cls, body: bytes) -> Self | None:
        try:
            value = orjson.loads(body)
        except orjson.JSONDecodeError:
            return None
        return cls(value) if isinstance(value, dict) else None


@dataclass(frozen=True, slots=True)
class _Failure:
    category: Category
    status: int | None = None
    retry_after: float | None = None

    @classmethod
    def of(cls, response: httpx.Response) -> Self:
        status = response.status_code
        category: Category = "http_error"
        if status in _UNAUTHORIZED:
            category = "unauthorized"
        elif status == _TOO_MANY:
            category = "rate_limited"
        elif status >= _SERVER_ERRORS:
            category = "unavailable"
        return cls(category, status, _parse_retry_after(response.headers.get("retry-after")))


def _parse_retry_after(value: str | None) -> float | None:
    """Return a Retry-After header in seconds; None for none, or a date, which no model's API sends."""
    return float(value[:9]) if value is not None and value.isascii() and value.isdigit() else None


def _redirect_target(url: httpx.URL, response: httpx.Response) -> httpx.URL | None:
    """Return the target of a redirect, None where it may not be followed."""
    if response.status_code not in KEEPING:
        return None
    try:
        target = url.join(response.headers["location"])
    except httpx.InvalidURL:
        return None
    same = (target.scheme, target.host, _effective_port(target)) == (url.scheme, url.host, _effective_port(url))
    return target if same and not target.userinfo else None


def _effective_port(url: httpx.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def _encode_body(body: Mapping[str, object]) -> bytes:
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError:
        pass
    # Text that is no Unicode (a lone surrogate) is sent with a mark in its place.
    return orjson.dumps(_replace_lone_surrogates(body))


def _replace_lone_surrogates(value: object) -> object:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, Mapping):
        return {key: _replace_lone_surrogates(inner) for key, inner in value.items()}
    return [_replace_lone_surrogates(inner) for inner in value] if isinstance(value, list | tuple) else value
