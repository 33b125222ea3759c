"""Sends requests over HTTP, or directly to an application in this process."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import httpx
import orjson

FIRST_REFUSAL = 400
#: What is answered where a lock or the load of the machine kept a call from being answered; how often, and after how
#: many seconds, it is made again.
BUSY = (b'"RESOURCE_BUSY"', b'"UNAVAILABLE"')
BUSY_LOOKS, BUSY_S = 10, 1.0


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """A request; `path` is percent-encoded and may contain a query."""

    method: str
    path: str
    body: Mapping[str, Any] | None = field(default=None, repr=False)


def call_tool(name: str, **arguments: Any) -> TrialRequest:
    """Return the request that calls a tool over MCP."""
    asked = {"name": name, "arguments": arguments}
    return TrialRequest("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked})


@dataclass(frozen=True, slots=True)
class TrialReply:
    """The answer to a request."""

    status: int
    body: bytes = field(repr=False)

    def json(self) -> Any:
        """Return the JSON value of the body, None without one; for an MCP tool call, the tool's result."""
        value = orjson.loads(self.body) if self.body else None
        if isinstance(value, dict) and "jsonrpc" in value and "result" in value:
            result = value["result"]
            return result.get("structuredContent") or orjson.loads(result["content"][0]["text"])
        return value

    @property
    def refused(self) -> bool:
        """Whether the request was refused, by its status or by an MCP tool."""
        return self.status >= FIRST_REFUSAL or b'"isError":true' in self.body


Send = Callable[[TrialRequest, str], Awaitable[TrialReply]]


async def send_until_answered(send: Send, ask: TrialRequest, token: str) -> TrialReply:
    """Send a request, and again while the service says that it is too busy, BUSY_LOOKS times at most."""
    reply = await send(ask, token)
    for _ in range(BUSY_LOOKS):
        if not any(code in reply.body for code in BUSY):
            break
        await asyncio.sleep(BUSY_S)
        reply = await send(ask, token)
    return reply


def send_over_http(client: httpx.AsyncClient) -> Send:
    """Return a function that sends requests to a running API."""

    async def send(ask: TrialRequest, token: str) -> TrialReply:
        content = None if ask.body is None else orjson.dumps(ask.body)
        reply = await client.request(ask.method, ask.path, content=content, headers=_build_headers(token))
        return TrialReply(reply.status_code, reply.content)

    return send


def send_in_process(app: Any) -> Send:
    """Return a function that sends requests to an ASGI application: every layer of the API except the socket."""

    async def send(ask: TrialRequest, token: str) -> TrialReply:
        path, _, query = ask.path.partition("?")
        content = b"" if ask.body is None else orjson.dumps(ask.body)
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": ask.method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in _build_headers(token).items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 1),
        }
        return await _run_request(app, scope, content)

    return send


async def _run_request(app: Any, scope: dict[str, Any], content: bytes) -> TrialReply:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": content, "more_body": False}

    async def take(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, take)
    return TrialReply(sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:]))


def _build_headers(token: str) -> dict[str, str]:
    known = {"authorization": f"Bearer {token}"} if token else {}
    return {**known, "content-type": "application/json", "accept": "application/json"}
