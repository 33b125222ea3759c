"""MCP on two API processes behind a round robin: nothing is kept between calls, and a turn is one turn."""

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from deploy.local.ports import find_free_port
from store import identity
from tests.deploy.api.test_process import api, environment, live, token
from tests.patience import PATIENCE_S
from tests.servers import TestPostgres, TestValkey

__all__ = ["token"]

pytestmark = pytest.mark.nightly

ITEM = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "We fly to Lisbon on Friday"}]}
TURNS = text("select count(*) from afterturn.turn_t where host_id = :host and session_id = :session")


class RoundRobin(httpx2.AsyncBaseTransport):
    """Sends each request to the next of some ports."""

    def __init__(self, ports: tuple[int, ...]) -> None:
        self._ports = itertools.cycle(ports)
        self._inner = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.url = request.url.copy_with(port=next(self._ports))
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def keep_and_prepare(ports: tuple[int, ...], key: str, mode: str) -> tuple[Any, Any]:
    """Return what a client gets for the turn that all of them keep, and for the one after it."""
    headers = {"authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(transport=RoundRobin(ports), headers=headers, timeout=PATIENCE_S) as http,
        Client(streamable_http_client("http://127.0.0.1:1/mcp", http_client=http), mode=mode) as client,
    ):
        told = {"session_id": "two", "turn_id": "1", "input_items": [ITEM]}
        kept = await client.call_tool("memory_after_turn", told)
        shown = await client.call_tool("memory_before_turn", {"session_id": "two", "current_input": "when?"})
        return json.loads(kept.content[0].text), (shown.structured_content or {})["input_items"]  # type: ignore[union-attr]


@pytest.mark.law("L2")
async def test_eight_clients_of_both_eras_over_two_processes_keep_one_turn_and_get_equal_answers(
    postgres: TestPostgres, valkey: TestValkey, token: str, tmp_path: Path
) -> None:
    ports = find_free_port(), find_free_port()
    folders = [tmp_path / str(port) for port in ports]
    for folder in folders:
        folder.mkdir()
    told = [environment(folder, postgres, valkey, port) for folder, port in zip(folders, ports, strict=True)]
    with api(told[0], folders[0]) as first, api(told[1], folders[1]) as second:
        for port, process in zip(ports, (first, second), strict=True):
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as client:
                await asyncio.to_thread(live, client, process)
        modes = ("legacy", "2026-07-28") * 4
        answers = await asyncio.gather(*(keep_and_prepare(ports, token, mode) for mode in modes))
    assert [kept for kept, _ in answers] == [{"ok": True, "project": "default"}] * 8
    assert all(items[-2] == ITEM for _, items in answers)
    host = identity.host_id("api-process")
    session = identity.session_id(identity.bank_id(host, "default"), "two")
    engine = create_async_engine(postgres.superuser_url)
    async with engine.connect() as connection:
        assert (await connection.execute(TURNS, {"host": host, "session": session})).scalar_one() == 1
    await engine.dispose()
