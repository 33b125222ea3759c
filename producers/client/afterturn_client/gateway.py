"""The Memory Gateway over HTTP: search, add and flush, each sent exactly once.

The wire contract is that of seed 000. Two things in it are easy to get wrong: `search` names the
conversation by its bare id while `add` and `flush` name the same session `chat:<id>`; and `add` is not
idempotent, so nothing here is ever repeated. Whoever calls decides, with the help of
`GatewayError.unsent` and `GatewayError.unknown`.
"""

import json
import math
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from afterturn_client.errors import Category, GatewayError, InvalidRequestError
from afterturn_client.posts import Posts, Transports
from afterturn_client.transport import (
    Lost,
    Reply,
    check_base_url,
    encode,
    is_loopback,
)

#: How the gateway names a chat session in `add` and `flush`.
SESSION_PREFIX = "chat:"

_UNAUTHORIZED = 401


@dataclass(frozen=True, slots=True)
class GatewayMessage:
    """One message to remember. `timestamp_ms` is UTC epoch milliseconds, positive."""

    sender_id: str
    role: str
    timestamp_ms: int
    content: str = field(repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.timestamp_ms, bool) or not isinstance(self.timestamp_ms, int) or self.timestamp_ms < 1:
            raise InvalidRequestError("timestamp_ms must be a positive integer (UTC epoch milliseconds)")


@dataclass(frozen=True, slots=True)
class GatewayHit:
    """One usable search result: it has a text. The other five fields may be None."""

    text: str = field(repr=False)
    id: str | None = None
    session_id: str | None = None
    score: float | None = None
    source_scope: str | None = None
    resource_uri: str | None = None


class GatewayClient:
    """Speaks to one gateway as one user, application and project.

    Every call takes a bare session id, waits at most `timeout_seconds` in all and raises GatewayError.
    Use it on one event loop and close it (`async with`, or `aclose`). A connection that idled for less than
    `keep_seconds` is used again: keep that well below what the gateway allows, since one that it closes at the moment
    of a call makes that call's outcome unknown. With 0, as for an agent's few calls, each has its own.
    """

    def __init__(  # noqa: PLR0917 -- five of them are one identity, in the order of the wire
        self,
        base_url: str,
        user_id: str,
        user_key: str,
        app_id: str = "default",
        project_id: str = "default",
        timeout_seconds: float = 10.0,
        transport: httpx.AsyncBaseTransport | None = None,
        keep_seconds: float = 0.0,
    ) -> None:
        if isinstance(timeout_seconds, bool) or not math.isfinite(timeout_seconds) or timeout_seconds <= 0:
            raise InvalidRequestError("timeout_seconds must be a finite number above 0")
        self._base_url = check_base_url(base_url)
        self._identity = {"user_id": user_id, "user_key": user_key}
        self._scope = {"app_id": app_id, "project_id": project_id}
        kept = 0.0 if transport is not None else keep_seconds
        # Read once: that takes longer than a hundred calls.
        trusted = httpx.create_ssl_context(trust_env=not is_loopback(self._base_url))
        own = partial(_transport, kept, trusted, _proxy(self._base_url))
        self._transports = Transports(own if transport is None else lambda: transport, kept)
        self._posts = Posts(
            self._transports, self._base_url, _headers(kept), float(timeout_seconds), traced=transport is None
        )

    def __repr__(self) -> str:
        return f"GatewayClient({self._base_url!r})"

    async def add(self, session_id: str, messages: Sequence[GatewayMessage]) -> None:
        """Store the messages of one run. Returns when the gateway has confirmed with a JSON object."""
        body = {**self._of_session(session_id), "messages": [_wire(message) for message in messages]}
        await self._call("add", body)

    async def flush(self, session_id: str) -> None:
        """Ask the gateway to extract what it holds of the session. It may take seconds."""
        await self._call("flush", self._of_session(session_id))

    async def search(
        self, conversation_id: str, query: str, scope: Sequence[str], top_k: int
    ) -> tuple[GatewayHit, ...]:
        """Return what the gateway finds, in its order; results without a text are dropped."""
        asked = {"conversation_id": conversation_id, "query": query, "scope": list(scope), "top_k": top_k}
        reply = await self._call("search", {**self._identity, **asked, **self._scope})
        results = reply.get("results")
        if not isinstance(results, list) or not all(isinstance(item, dict) for item in results):
            raise GatewayError(operation="search", path="/memories/search", category="invalid_response", status=200)
        return tuple(hit for hit in map(_hit, results) if hit is not None)

    async def aclose(self) -> None:
        """Close what is open."""
        await self._transports.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _of_session(self, session_id: str) -> dict[str, Any]:
        return {**self._identity, "session_id": SESSION_PREFIX + session_id, **self._scope}

    async def _call(self, operation: str, body: Mapping[str, Any]) -> dict[str, Any]:
        path = f"/memories/{operation}"
        outcome = await self._posts.send(path, encode(body))
        if isinstance(outcome, Lost):
            raise GatewayError(operation=operation, path=path, category=outcome.category, unsent=not outcome.sent)
        answer = _read(outcome)
        if isinstance(answer, dict):
            return answer
        raise GatewayError(
            operation=operation,
            path=path,
            category=answer,
            status=outcome.status,
            retry_after=outcome.retry_after,
        )


def _headers(keep_seconds: float) -> dict[str, str]:
    # A kept connection that the other side has dropped would turn "not sent" into "unknown".
    return {"accept": "application/json", "connection": "keep-alive" if keep_seconds > 0 else "close"}


def _transport(keep_seconds: float, trusted: ssl.SSLContext, proxy: str | None) -> httpx.AsyncBaseTransport:
    return httpx.AsyncHTTPTransport(
        verify=trusted,
        proxy=proxy,
        limits=httpx.Limits(max_keepalive_connections=1 if keep_seconds > 0 else 0, keepalive_expiry=keep_seconds),
    )


def _proxy(base_url: str) -> str | None:
    """Return the proxy that the environment names for this address; to this machine there is none."""
    parts = urlsplit(base_url)
    if is_loopback(base_url) or proxy_bypass(parts.netloc):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


def _read(reply: Reply) -> dict[str, Any] | Category:
    """Return the JSON object of a 2xx reply, else the category of what is wrong with it."""
    if reply.status == _UNAUTHORIZED:
        return "unauthorized"
    if not httpx.codes.is_success(reply.status):
        return "http_error"
    if reply.body is None:
        return "invalid_response"
    try:
        value = json.loads(reply.body)
    except (ValueError, RecursionError):
        return "invalid_json"
    return value if isinstance(value, dict) else "invalid_response"


def _wire(message: GatewayMessage) -> dict[str, str | int]:
    return {
        "sender_id": message.sender_id,
        "role": message.role,
        "timestamp": message.timestamp_ms,
        "content": message.content,
    }


def _hit(item: Mapping[str, Any]) -> GatewayHit | None:
    text = item.get("text")
    if not isinstance(text, str) or not text.strip():
        return None
    names = ("id", "session_id", "source_scope", "resource_uri")
    strings = {name: _storable(value) for name in names if isinstance(value := item.get(name), str)}
    return GatewayHit(text=_storable(text), score=_number(item.get("score")), **strings)


def _storable(text: str) -> str:
    """Return a text without what no model, no answer and no database can hold: lone surrogates and NUL."""
    return text.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
