"""The Memory Gateway over HTTP: search, add and flush, each sent exactly once.

The wire contract is that of seed 000. Two things in it are easy to get wrong: `search` names the
conversation by its bare id while `add` and `flush` name the same session `chat:<id>`; and `add` is not
idempotent, so nothing here is ever repeated. The caller decides, with the help of
`GatewayError.unsent` and `GatewayError.unknown`.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from afterturn_client.closing import AsyncClosing
from afterturn_client.errors import Category, GatewayError, InvalidRequestError
from afterturn_client.posts import Posts, Sends
from afterturn_client.transport import Lost, Reply, check_base_url, check_way, encode_json

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


class GatewayClient(AsyncClosing):
    """Speaks to one gateway as one user, application and project.

    Every call takes a bare session id, waits at most `timeout_seconds` in all and raises GatewayError. Beyond this
    machine the key goes over https alone, unless `allow_http` says otherwise (InvalidRequestError).
    Use it on one event loop and close it (`async with`, or `aclose`). Each call has a connection of its own, as suits
    an agent's few; `posts`, where they are handed in, see to connections and patience themselves.
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
        posts: Sends | None = None,
        *,
        allow_http: bool = False,
    ) -> None:
        if isinstance(timeout_seconds, bool) or not math.isfinite(timeout_seconds) or timeout_seconds <= 0:
            raise InvalidRequestError("timeout_seconds must be a finite number above 0")
        self._base_url = check_base_url(base_url)
        check_way(self._base_url, allow_http=allow_http)
        self._identity = {"user_id": user_id, "user_key": user_key}
        self._scope = {"app_id": app_id, "project_id": project_id}
        self._posts = posts or Posts(self._base_url, float(timeout_seconds), transport=transport)

    def __repr__(self) -> str:
        return f"GatewayClient({self._base_url!r})"

    async def add(self, session_id: str, messages: Sequence[GatewayMessage], *, turn_id: str | None = None) -> None:
        """Store the messages of one run. Returns when the gateway has confirmed with a JSON object.

        `turn_id` is for an Afterturn that hands its turns to itself: it names the turn the messages are of, so that
        they are not stored a second time. The contract of other gateways has no such field.
        """
        body = {**self._of_session(session_id), "messages": [_message_json(message) for message in messages]}
        await self._call("add", body if turn_id is None else {**body, "afterturn_turn_id": turn_id})

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
        return tuple(hit for hit in map(_parse_hit, results) if hit is not None)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._posts.aclose()

    def _of_session(self, session_id: str) -> dict[str, Any]:
        return {**self._identity, "session_id": SESSION_PREFIX + session_id, **self._scope}

    async def _call(self, operation: str, body: Mapping[str, Any]) -> dict[str, Any]:
        path = f"/memories/{operation}"
        outcome = await self._posts.send(path, encode_json(body))
        if isinstance(outcome, Lost):
            raise GatewayError(operation=operation, path=path, category=outcome.category, unsent=not outcome.sent)
        answer = _read_reply(outcome)
        if isinstance(answer, dict):
            return answer
        raise GatewayError(
            operation=operation,
            path=path,
            category=answer,
            status=outcome.status,
            retry_after=outcome.retry_after,
        )


def _read_reply(reply: Reply) -> dict[str, Any] | Category:
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


def _message_json(message: GatewayMessage) -> dict[str, str | int]:
    return {
        "sender_id": message.sender_id,
        "role": message.role,
        "timestamp": message.timestamp_ms,
        "content": message.content,
    }


def _parse_hit(item: Mapping[str, Any]) -> GatewayHit | None:
    text = item.get("text")
    if not isinstance(text, str) or not text.strip():
        return None
    names = ("id", "session_id", "source_scope", "resource_uri")
    strings = {name: _strip_unstorable(value) for name in names if isinstance(value := item.get(name), str)}
    return GatewayHit(text=_strip_unstorable(text), score=_parse_number(item.get("score")), **strings)


def _strip_unstorable(text: str) -> str:
    """Return a text without what no model, no answer and no database can hold: lone surrogates and NUL."""
    return text.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def _parse_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
