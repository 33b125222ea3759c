"""Memory tools for MCP clients that speak over standard input and output: a bridge to `/mcp` of a running service.

It holds no model, no database and no state but the protocol's revision. Every line is one message, forwarded unchanged;
a tool's call without a project gets that of the working folder. Standard output carries the protocol alone.
"""

import asyncio
import json
import sys
import threading
from collections.abc import Mapping
from typing import Any, BinaryIO

import httpx

from afterturn_client.oversized import ENDS, Oversized, identify_message
from afterturn_client.retry import NEVER
from afterturn_client.target import ServiceTarget
from afterturn_client.transport import open_client

#: Most bytes of one message as a line, and as it is sent: the limit of a call by the tools' contract.
LONGEST_LINE, LONGEST_CALL = 4_194_304, 2_097_152
#: Time-out of a call; longer than a recall that waits for freshness, and than the service's own waits.
TIMEOUT_S = 60.0
#: Error codes of JSON-RPC: not JSON, not a request, and a failure of the server.
PARSE_ERROR, INVALID_REQUEST, SERVER_ERROR = -32700, -32600, -32000
#: Where a message of the 2026-07-28 revision says which revision it is of, and what is named again in a header.
REVISION = "io.modelcontextprotocol/protocolVersion"
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
#: The tools' codes for refusals of a request; every other one is an invalid argument.
CODES = {
    None: "INTERNAL_ERROR",
    "INTERNAL": "INTERNAL_ERROR",
    "UNAUTHENTICATED": "UNAUTHENTICATED",
    "PERMISSION_DENIED": "PERMISSION_DENIED",
    "INSUFFICIENT_SCOPE": "PERMISSION_DENIED",
}
TOO_LARGE = f"the call is too large: it may have {LONGEST_CALL} bytes; send less at a time"
AWAY = "the memory service does not answer: start it (`afterturn up`), or say where it is (--url); then try again"


class Bridge:
    """A bridge that forwards messages to a service and returns its answers."""

    def __init__(self, http: httpx.AsyncClient, project: str) -> None:
        """Keep `http`, a client with the service's base URL and key."""
        self._http = http
        self._project = project
        self._revision: str | None = None

    async def answer(self, line: bytes) -> bytes | None:
        """Return the answer to a message as a line; None where the protocol has none. Never raises for a message."""
        if len(line) > LONGEST_LINE:
            return _refuse_oversized(identify_message(line, line))
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return _build_error(None, PARSE_ERROR, "the line is not JSON")
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            answered = isinstance(message, dict) and ("result" in message or "error" in message)
            return None if answered else _build_error(None, INVALID_REQUEST, "the line is no message of this protocol")
        reply = await self._exchange(message)
        if message["method"] == "initialize" and reply is not None:
            self._revision = _find_revision(reply)
        return reply

    async def _exchange(self, message: dict[str, Any]) -> bytes | None:
        """Send a message and return its answer; without one, a protocol error that says why."""
        try:
            body = _encode(self._complete(message))
            if len(body) > LONGEST_CALL:
                return _refuse_message(message, "INVALID_ARGUMENT", TOO_LARGE, retryable=False)
            reply = await self._http.post("/mcp", content=body, headers=self._headers(message), timeout=TIMEOUT_S)
        except httpx.HTTPError:
            return _refuse_message(message, "RESOURCE_BUSY", AWAY, retryable=True)
        if reply.status_code in (202, 204):
            return None
        try:
            value = reply.json()
        except ValueError:
            value = None
        if isinstance(value, dict) and "jsonrpc" in value:
            return json.dumps(value).encode()
        error = value.get("error") if isinstance(value, dict) else None
        told = error if isinstance(error, dict) else {}
        code = "RESOURCE_BUSY" if told.get("retryable") else CODES.get(told.get("code"), "INVALID_ARGUMENT")
        say = str(told.get("message", f"no answer of this protocol: HTTP {reply.status_code}; is --url an Afterturn?"))
        return _refuse_message(message, code, say, retryable=bool(told.get("retryable")))

    def _complete(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the message; a tool's call without a project gets the bridge's."""
        params = message.get("params")
        if message["method"] != "tools/call" or not isinstance(params, dict):
            return message
        given = params.get("arguments", {})
        if not isinstance(given, dict) or "project" in given:
            return message
        return {**message, "params": {**params, "arguments": {"project": self._project, **given}}}

    def _headers(self, message: Mapping[str, Any]) -> dict[str, str]:
        """Return the headers that the protocol requires with a body."""
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        params = message.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        revision = meta.get(REVISION) if isinstance(meta, dict) else None
        if not isinstance(revision, str):
            return headers | ({"mcp-protocol-version": self._revision} if self._revision else {})
        headers |= {"mcp-protocol-version": revision, "mcp-method": message["method"]}
        name = params.get(NAMED.get(message["method"], "")) if isinstance(params, dict) else None
        return {
            name: value
            for name, value in (headers | ({"mcp-name": name} if isinstance(name, str) else {})).items()
            if value.isascii() and value.isprintable()
        }


def open_target(url: str, key: str, project: str, *, allow_http: bool) -> ServiceTarget:
    """Return a bridge's service. Raises InvalidRequestError."""
    return ServiceTarget(url, key, project, TIMEOUT_S, NEVER, read_your_writes=False, allow_http=allow_http)


async def serve_bridge(target: ServiceTarget) -> None:
    """Serve a service's tools over standard input and output, until the input ends. Raises InvalidRequestError."""
    async with open_client(httpx.AsyncClient, **target.http_options()) as http:
        await run_bridge(Bridge(http, target.bank), sys.stdin.buffer, sys.stdout.buffer)


async def run_bridge(bridge: Bridge, read: BinaryIO, write: BinaryIO) -> None:
    """Read lines and write their answers as these arrive, until the input ends."""
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    # A daemon thread: a read of standard input cannot be cancelled.
    threading.Thread(target=_read_lines, args=(read, loop, lines), daemon=True).start()

    async def serve(line: bytes) -> None:
        answer = await bridge.answer(line)
        if answer is None:
            return
        try:
            write.write(answer + b"\n")
            write.flush()
        except BrokenPipeError:
            lines.put_nowait(b"")  # the reader has gone

    async with asyncio.TaskGroup() as tasks:
        while line := await lines.get():
            if line.strip():
                tasks.create_task(serve(line))


def _read_lines(read: BinaryIO, loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[bytes]) -> None:
    """Put each line into a queue (of one that is too long, its two ends), and an empty line at the end."""
    while True:
        line = read.readline(LONGEST_LINE + 1)
        rest = line
        while len(rest) > LONGEST_LINE and not rest.endswith(b"\n"):
            rest = read.readline(LONGEST_LINE + 1)
            line = line[: LONGEST_LINE + 1] + (line[LONGEST_LINE + 1 :] + rest)[-ENDS:]
        try:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        except RuntimeError:
            return  # the loop has ended
        if not line:
            return


def _find_revision(reply: bytes) -> str | None:
    result = json.loads(reply).get("result")
    found = result.get("protocolVersion") if isinstance(result, dict) else None
    return found if isinstance(found, str) else None


def _refuse_message(message: Mapping[str, Any], code: str, say: str, *, retryable: bool) -> bytes | None:
    """Return the refusal of a message: a tool's result, or an error; None for a notification."""
    if "id" not in message:
        return None
    if message["method"] != "tools/call":
        return _build_error(message["id"], SERVER_ERROR, f"{code}: {say}")
    text = json.dumps({"code": code, "message": say, "retryable": retryable})
    result = {"content": [{"type": "text", "text": text}], "isError": True, "resultType": "complete"}
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()


def _refuse_oversized(message: Oversized) -> bytes:
    """Return the refusal of a line that is too long to be read: the tool's, where the line's ends name the call."""
    named = None if message.id is None else json.loads(message.id)
    if not message.is_call:
        return _build_error(named, INVALID_REQUEST, f"INVALID_ARGUMENT: {TOO_LARGE}")
    told = _refuse_message({"id": named, "method": "tools/call"}, "INVALID_ARGUMENT", TOO_LARGE, retryable=False)
    return told or b""


def _encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as JSON, each letter in its own bytes where it has any: escapes would be up to three times."""
    try:
        return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(message, separators=(",", ":")).encode()


def _build_error(named: Any, code: int, say: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": named, "error": {"code": code, "message": say}}).encode()
