"""Answers of the SDK on their way to a client: errors repeat nothing, results pass as they are."""

import json
from typing import Any

import orjson
import pytest
from mcp import types
from starlette.types import Message

from producers.mcp import server
from producers.service.json_values import VALUES
from tests.producers.conftest import Tenant


async def pass_through(*bodies: bytes) -> bytes:
    sent = list[Message]()

    async def send(message: Message) -> None:
        sent.append(message)

    take = server.hide_input_in_errors(send)
    await take({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    for n, body in enumerate(bodies, 1):
        await take({"type": "http.response.body", "body": body, "more_body": n < len(bodies)})
    answer: bytes = sent[-1]["body"]
    assert dict(sent[0]["headers"]) == {b"content-length": str(len(answer)).encode()}
    return answer


@pytest.mark.parametrize("call", [1, -7, "a", 'an "error" \\'])
async def test_a_result_is_neither_copied_nor_parsed(call: int | str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_body: bytes) -> Any:
        raise AssertionError("a result was parsed")

    monkeypatch.setattr("producers.mcp.server.orjson.loads", refuse)
    answer = types.JSONRPCResponse(jsonrpc="2.0", id=call, result={"error": {"code": types.INVALID_PARAMS}})
    body = answer.model_dump_json(by_alias=True, exclude_unset=True).encode()
    assert await pass_through(body) is body


async def test_an_error_repeats_nothing_however_it_is_called() -> None:
    called = '1,"result":'
    error = types.ErrorData(code=types.INVALID_PARAMS, message="hush")
    body = types.JSONRPCError(jsonrpc="2.0", id=called, error=error).model_dump_json(exclude_unset=True).encode()
    answer = orjson.loads(await pass_through(body[:40], body[40:]))
    told = {"code": types.INVALID_PARAMS, "message": server.PROTOCOL_ERRORS[types.INVALID_PARAMS]}
    assert answer == {"jsonrpc": "2.0", "id": called, "error": told}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("where", ["arguments", "_meta", "elsewhere"])
async def test_too_many_values_are_refused_before_they_are_parsed(
    ana: Tenant, where: str, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("it was parsed")

    monkeypatch.setattr(server.McpServer, "serve", refuse)
    asked = {"name": "memory_search", where: {"many": [0] * VALUES}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked}).encode(encoding)
    reply = await ana.http.post("/mcp", content=body, headers={"content-type": "application/json"})
    error = reply.json()["error"]
    assert (reply.status_code, error["code"]) == (400, types.INVALID_REQUEST)
    assert f"more than {VALUES} JSON values" in error["message"]
