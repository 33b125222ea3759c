"""A call of more than 2 MiB is its tool's INVALID_ARGUMENT, with the official client of both eras and by hand."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from afterturn_client.oversized import identify_message

from producers.mcp.server import CODES, INVALID
from tests.producers.conftest import Tenant, World
from tests.producers.mcp.test_tools import call, client_of, refusal, said
from tests.tables import each_row

LIMIT = 2_097_152
PAGE = Path(__file__).parents[3] / "docs/mcp.md"


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_three_mebibytes_are_an_invalid_argument_every_time(world: World, ana: Tenant, mode: str) -> None:
    async with client_of(world, ana, mode) as client:
        for _ in range(3):
            told = await refusal(
                client, "memory_after_turn", session_id="s", turn_id="1", input_items=[said("x" * 3 * 2**20)]
            )
            assert (told["code"], told["retryable"]) == ("INVALID_ARGUMENT", False)
            assert f"{LIMIT} bytes" in told["message"]
        await call(client, "memory_after_turn", session_id="s", turn_id="1", input_items=[said("short")])


async def test_the_answer_has_the_calls_id_wherever_it_stands(ana: Tenant) -> None:
    text = '{"id": 5, "method": "x"}' * 100_000
    params = json.dumps({"name": "memory_search", "arguments": {"query": text, "id": 4}})
    version, method = '"jsonrpc":"2.0"', '"method":"tools/call"'
    for body, named, status in (
        (f'{{{version},"id":1,{method},"params":{params}}}', 1, 200),
        (f'{{{method},"params":{params},{version},"id":"two"}}', "two", 200),
        (f'{{ "id" : 3 , {version} , {method} , "params" : {params} }}', 3, 200),
        (f'{{{version},"id":6,"method":"ping","params":{params}}}', 6, 400),
        (f'{{{version},"params":{params},{method}}}', None, 400),
        ("x" * 3_000_000, None, 400),
    ):
        reply = await ana.http.post("/mcp", content=body.encode(), headers={"content-type": "application/json"})
        answer = reply.json()
        assert (reply.status_code, answer["id"]) == (status, named)
        told: Any = answer["result"]["content"][0]["text"] if status == 200 else answer["error"]["message"]
        assert "INVALID_ARGUMENT" in told
        assert text[:20] not in reply.text


async def test_what_is_beyond_all_measure_is_not_read(ana: Tenant) -> None:
    reply = await ana.http.post("/mcp", content=b"x", headers={"content-length": str(17 * LIMIT)})
    assert reply.status_code == 413


async def test_too_many_items_are_counted_in_items(world: World, ana: Tenant) -> None:
    async with client_of(world, ana) as client:
        told = await refusal(client, "memory_after_turn", session_id="s", turn_id="1", input_items=[said("x")] * 1025)
    assert (told["code"], "1024 items" in told["message"], "bytes" in told["message"]) == (
        "INVALID_ARGUMENT",
        True,
        False,
    )


@each_row("end", [b'{"params":{"id":5}}', b'{"params":{"a":{"id":5}}}', b"", b"\xff" * 9000])
def test_no_id_within_a_message_is_taken_for_its_own(end: bytes) -> None:
    assert identify_message(end, end).id is None


def test_every_code_stands_in_the_table_of_the_page() -> None:
    table = PAGE.read_text().partition("## When a call fails")[2].partition("\n\nWithout")[0]
    assert set(re.findall(r"^\| `([A-Z_]+)`", table, re.MULTILINE)) == {*CODES.values(), INVALID, "UNAUTHENTICATED"}
