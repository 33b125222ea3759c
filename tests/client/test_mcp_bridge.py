"""`afterturn-client mcp`: a program as MCP clients start it, before a service that answers, refuses, or is away."""

import io
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import httpx
import pytest
from afterturn_client import command
from afterturn_client.mcp_bridge import LONGEST_CALL, LONGEST_LINE, Bridge, run_bridge
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from starlette.responses import JSONResponse, Response

from tests.client.loopback import Loopback, Seen
from tests.processes import dumps_no_core

KEY = "at_zq77key"
MODERN = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}


def message(method: str, params: dict[str, Any] | None = None, named: int | None = 1) -> bytes:
    body = {"jsonrpc": "2.0", "method": method, "params": params or {}}
    return json.dumps(body if named is None else {**body, "id": named}).encode()


async def ask(server: Loopback, *lines: bytes) -> list[dict[str, Any]]:
    written = io.BytesIO()
    async with httpx.AsyncClient(base_url=server.url) as http:
        await run_bridge(Bridge(http, "garden"), io.BytesIO(b"\n".join(lines)), written)
    return [json.loads(line) for line in written.getvalue().splitlines()]


def result_of(body: dict[str, Any]) -> Any:
    return json.loads(body["result"]["content"][0]["text"])


async def test_the_project_of_the_folder_is_sent_where_a_call_names_none(server: Loopback) -> None:
    server.answer = lambda seen: JSONResponse({"jsonrpc": "2.0", "id": seen.json["id"], "result": {}})
    call = {"name": "memory_search", "arguments": {"query": "x"}}
    await ask(server, message("tools/call", call), message("tools/list", {"cursor": "c"}, 2))
    named = {**call, "arguments": {"query": "x", "project": "kitchen"}}
    await ask(server, message("tools/call", named, 3), message("tools/call", {"name": "memory_search"}, 4))
    sent = {seen.json["id"]: seen.json["params"] for seen in server.seen}
    assert sent[1]["arguments"] == {"project": "garden", "query": "x"}
    assert sent[2] == {"cursor": "c"}
    assert sent[3] == named
    assert sent[4]["arguments"] == {"project": "garden"}


async def test_headers_say_what_the_protocol_wants_of_each_era(server: Loopback) -> None:
    def answer(seen: Seen) -> Response:
        return JSONResponse({"jsonrpc": "2.0", "id": seen.json["id"], "result": {"protocolVersion": "2025-06-18"}})

    server.answer = answer
    written = io.BytesIO()
    async with httpx.AsyncClient(base_url=server.url) as http:
        bridge = Bridge(http, "p")
        for line in (
            message("initialize", {}),
            message("tools/list"),
            message("tools/call", {"name": "memory_search", "arguments": {}, **MODERN}),
            message("tools/call", {"name": "caf\u00e9", "arguments": {}, **MODERN}),
        ):
            await run_bridge(bridge, io.BytesIO(line), written)
    first, second, third, fourth = (seen.headers for seen in server.seen)
    assert "mcp-protocol-version" not in first
    assert second["mcp-protocol-version"] == "2025-06-18"
    assert (third["mcp-protocol-version"], third["mcp-method"], third["mcp-name"]) == (
        "2026-07-28",
        "tools/call",
        "memory_search",
    )
    assert "mcp-name" not in fourth


async def test_a_refusal_of_the_service_is_one_of_the_tool(server: Loopback) -> None:
    for status, error, told in (
        (401, {"code": "UNAUTHENTICATED", "message": "a key", "retryable": False}, ("UNAUTHENTICATED", False)),
        (429, {"code": "RATE_LIMITED", "message": "later", "retryable": True}, ("RESOURCE_BUSY", True)),
        (503, {"code": "UNAVAILABLE", "message": "later", "retryable": True}, ("RESOURCE_BUSY", True)),
    ):
        server.answer = lambda _seen, s=status, e=error: JSONResponse({"error": e}, s)  # type: ignore[misc]
        [call, listed] = await ask(server, message("tools/call", {"name": "x"}, 1), message("tools/list", {}, 2))
        if call["id"] == 2:
            call, listed = listed, call
        assert (result_of(call)["code"], result_of(call)["retryable"], call["result"]["isError"]) == (*told, True)
        assert listed["error"]["message"].startswith(told[0])


async def test_what_is_no_service_of_ours_is_named(server: Loopback) -> None:
    server.answer = lambda _seen: Response("<html>", 404)
    [body] = await ask(server, message("tools/list"))
    assert "HTTP 404" in body["error"]["message"]


async def test_what_is_no_message_gets_an_error_and_what_wants_no_answer_gets_none(server: Loopback) -> None:
    server.answer = lambda _seen: Response(status_code=202)
    deep = b"[" * 100_000
    lines = [b"{", b"[]", b"7", b"{}", b"\xff", deep, b"  ", b'{"method": 7, "id": 1}', b"x" * (LONGEST_LINE + 9)]
    answers = await ask(server, *lines)
    assert sorted(one["error"]["code"] for one in answers) == sorted([-32700] * 3 + [-32600] * 5)
    assert all(one["id"] is None for one in answers)
    assert await ask(server, message("notifications/initialized", {}, None), b'{"id": 1, "result": {}}') == []
    assert len(server.seen) == 1


@pytest.mark.parametrize("size", [LONGEST_CALL, 3 << 20, LONGEST_LINE + 9, 9_000_000])
async def test_a_call_that_is_too_large_is_refused_as_the_tool_before_it_is_sent(server: Loopback, size: int) -> None:
    params = json.dumps({"name": "memory_remember", "arguments": {"text": "x" * size}})
    first = f'{{"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": {params}}}'
    last = f'{{"method":"tools/call","params":{params},"jsonrpc":"2.0","id":7}}'
    answers = await ask(server, first.encode(), last.encode(), message("ping", {"x": "y" * size}, 8))
    found = {one["id"]: one for one in answers}
    for named in ("a", 7):
        told = result_of(found[named])
        assert (told["code"], told["retryable"], found[named]["result"]["isError"]) == ("INVALID_ARGUMENT", False, True)
        assert f"{LONGEST_CALL} bytes" in told["message"]
    assert found[8]["error"]["message"].startswith("INVALID_ARGUMENT: ")
    assert server.seen == []


async def test_a_call_is_measured_in_its_own_letters(server: Loopback) -> None:
    server.answer = lambda seen: JSONResponse({"jsonrpc": "2.0", "id": seen.json["id"], "result": {}})
    text = "\u043f" * 600_000
    call = {"name": "x", "arguments": {"text": text}}
    [answer] = await ask(server, message("tools/call", call))
    assert answer["result"] == {}
    assert server.seen[0].json["params"]["arguments"]["text"] == text
    server.answer = lambda _seen: JSONResponse({"jsonrpc": "2.0", "id": 1, "result": {}})
    [answer] = await ask(server, message("tools/call", {"name": "\ud800"}))
    assert (answer["result"], b"\\ud800" in server.seen[-1].body) == ({}, True)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_service_that_is_away_is_busy_for_clients_of_both_eras(mode: str, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(f"{KEY}\n")
    arguments = ["-m", "afterturn_client.command", "mcp", "--url", "http://127.0.0.1:9", "--key-file", str(key)]
    started = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    if mode == "legacy":
        with pytest.raises(BaseExceptionGroup) as raised:
            async with Client(started, mode=mode):
                pass
        told = "".join(traceback.format_exception(raised.value))
        assert "RESOURCE_BUSY: the memory service does not answer" in told
        assert KEY not in told
        return
    async with Client(started, mode=mode) as client:
        result = await client.call_tool("memory_search", {"query": "x"})
        assert result.is_error
        assert json.loads(result.content[0].text)["code"] == "RESOURCE_BUSY"  # type: ignore[union-attr]
        large = await client.call_tool("memory_search", {"query": "x" * 3 * 2**20})
        assert json.loads(large.content[0].text)["code"] == "INVALID_ARGUMENT"  # type: ignore[union-attr]


def test_without_a_key_the_command_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AFTERTURN_API_KEY", "AFTERTURN_API_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    assert command.main(["mcp"]) == 2
    assert command.main(["mcp", "--key-file", "/nowhere"]) == 2
    monkeypatch.setenv("AFTERTURN_API_KEY", KEY)
    assert command.main(["mcp", "--url", "http://memory.example"]) == 2
    told = capsys.readouterr()
    assert "AFTERTURN_API_KEY" in told.err
    assert "https" in told.err
    assert (told.out, KEY in told.err) == ("", False)


def test_the_program_ends_with_its_input_and_writes_nothing_else() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "afterturn_client.command", "mcp", "--url", "http://127.0.0.1:9"],
        input=message("tools/list"),
        env={**os.environ, "AFTERTURN_API_KEY": KEY},
        capture_output=True,
        timeout=60,
        check=True,
    )
    [line] = ended.stdout.splitlines()
    assert json.loads(line)["error"]["message"].startswith("RESOURCE_BUSY")
    assert ended.stderr == b""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc")
def test_the_program_cannot_dump_core() -> None:
    """A dump would hold its key and what the agent says."""
    command = [sys.executable, "-m", "afterturn_client.command", "mcp", "--url", "http://127.0.0.1:9"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "AFTERTURN_API_KEY": KEY}
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(message("tools/list") + b"\n")
        program.stdin.flush()
        assert program.stdout.readline(), "it serves by now"
        assert dumps_no_core(program.pid)
        program.stdin.close()
