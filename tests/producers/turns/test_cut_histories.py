"""Every cut of a history is one that a Responses service takes: no output without its call, no call without either."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import orjson
import pytest
from starlette.responses import JSONResponse, Response

from producers.mcp.settings import TurnMemorySettings
from producers.settings import ApiSettings
from tests.client.loopback import Loopback, Seen, loopback
from tests.producers.conftest import Tenant, broker_of, build
from tests.servers import TestPostgres, TestValkey

BEFORE, AFTER = "/api/v1/turns/before", "/api/v1/turns/after"


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def turn_of(n: int) -> list[dict[str, Any]]:
    """Twelve items: a question with an image, reasoning, two calls at once and a custom one, and an unknown type."""
    return [
        {**said(f"question {n}"), "metadata": {"k": f" Ä\u2028{n}"}},
        {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": f"https://x/{n}.png"}]},
        {"type": "reasoning", "id": f"r{n}", "encrypted_content": "gAAA" * 20, "summary": []},
        {"type": "function_call", "call_id": f"a{n}", "name": "look", "arguments": '{"z": 1, "a": [2.50]}'},
        {"type": "function_call", "call_id": f"b{n}", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": f"b{n}", "output": "second"},
        {"type": "function_call_output", "call_id": f"a{n}", "output": [{"type": "input_text", "text": "first"}]},
        {"type": "unheard_of", "n": n, "deep": [{"x": None, "f": 1.5e-7, "e": 1e5, "big": 2**60}]},
        {"type": "custom_tool_call", "call_id": f"c{n}", "name": "sh", "input": "ls"},
        {"type": "custom_tool_call_output", "call_id": f"c{n}", "output": "a b"},
        {"type": "reasoning", "id": f"s{n}", "summary": [{"type": "summary_text", "text": "so"}]},
        {**said(f"answer {n}", "assistant"), "id": f"m{n}", "status": "completed", "phase": None},
    ]


HISTORY = [item for n in range(5) for item in turn_of(n)]
CALLS = {"function_call", "custom_tool_call"}


def refuse_unpaired(seen: Seen) -> Response:
    """Answer as the Responses API does: 400 for a call or an output alone, and for reasoning that nothing follows."""
    opened, items = set[str](), seen.json["input"]
    for n, item in enumerate(items):
        kind = item.get("type", "message")
        if kind in CALLS:
            opened.add(item["call_id"])
        elif kind.endswith("_output"):
            if item["call_id"] not in opened:
                return JSONResponse({"error": f"no call for output {item['call_id']}"}, 400)
            opened.discard(item["call_id"])
        elif kind == "reasoning" and (n + 1 == len(items) or items[n + 1].get("role") == "user"):
            return JSONResponse({"error": f"reasoning {item['id']} without its item"}, 400)
    missing = [item["call_id"] for item in items if item.get("type") in CALLS and item["call_id"] in opened]
    return JSONResponse({"error": f"no output for {missing}"}, 400) if missing else JSONResponse({"output": []})


@pytest.fixture
def responses() -> Iterator[Loopback]:
    with loopback() as server:
        server.answer = refuse_unpaired
        yield server


async def test_every_cut_of_a_history_is_taken_and_its_items_are_those_that_came_in(
    postgres: TestPostgres, valkey: TestValkey, responses: Loopback
) -> None:
    memory = TurnMemorySettings(recall_facts_limit=0, search_limit=0)
    settings = ApiSettings().model_copy(update={"mcp": ApiSettings().mcp.model_copy(update={"memory": memory})})
    made = build(postgres, broker_of(valkey.url, f"cuts-{uuid4().hex}"), settings=settings)
    tenant = await made.tenant()
    for n in range(5):
        turn = turn_of(n)
        kept = {"session_id": "s", "turn_id": str(n), "input_items": turn[:2], "output_items": turn[2:]}
        assert (await tenant.http.post(AFTER, json=kept)).status_code == 200
    current, sizes = [said("and now?")], set[int]()
    async with httpx.AsyncClient() as client:
        for most in range(1, 61):
            memory.__dict__["recent_context_items"] = most  # settings are frozen: the service is made once
            asked = {"session_id": "s", "turn_id": "next", "current_input": current}
            given = (await tenant.http.post(BEFORE, json=asked)).json()["input_items"]
            answer = await client.post(responses.url, json={"input": given})
            assert answer.status_code == 200, (most, answer.text)
            # The rule and the summary of what is cut stand first.
            told = [item for item in given if "memory_reference" in str(item)]
            history = given[len(told) : -1]
            assert len(told) in (0, 2)
            assert bool(told) == (len(history) < len(HISTORY))
            assert len(history) <= most
            assert orjson.dumps(history) == orjson.dumps(HISTORY[len(HISTORY) - len(history) :])
            sizes.add(len(history))
        assert {60, 12, 2, 0} <= sizes
        for lone in (HISTORY[3:5], HISTORY[5:6], HISTORY[2:3]):
            assert (await client.post(responses.url, json={"input": lone})).status_code == 400
    await tenant.http.aclose()
    await made.close()


async def test_outputs_of_stored_calls_bring_these_at_every_budget_and_are_kept_once(
    ana: Tenant, responses: Loopback
) -> None:
    """An agent that keeps each answer of its model as a turn of its own sends the outputs alone."""
    calls = [
        {"type": "reasoning", "id": "r", "summary": []},
        *({"type": "function_call", "call_id": one, "name": "look", "arguments": "{}"} for one in "ab"),
    ]
    outputs = [{"type": "function_call_output", "call_id": one, "output": f"seen {one}"} for one in "ba"]
    early, late = ([said(f"{when} {n} {'more ' * 30}") for n in range(4)] for when in ("early", "late"))
    for turn, items in enumerate((early, calls, late)):
        kept = {"session_id": "s", "turn_id": str(turn), "input_items": [], "output_items": items}
        assert (await ana.http.post(AFTER, json=kept)).status_code == 200
    asked, histories = {"session_id": "s", "turn_id": "4", "current_input": outputs}, list[list[dict[str, Any]]]()
    async with httpx.AsyncClient() as client:
        for most in range(1, 700, 23):
            given = (await ana.http.post(BEFORE, json={**asked, "max_input_tok": most})).json()["input_items"]
            answer = await client.post(responses.url, json={"input": given})
            assert answer.status_code == 200, (most, answer.text)
            histories.append([item for item in given[: -len(outputs)] if "memory_reference" not in str(item)])
        assert (await client.post(responses.url, json={"input": outputs})).status_code == 400
    whole = [*early, *calls, *late]
    assert all(shown == [item for item in whole if item in calls or item in shown] for shown in histories)
    assert {3, 5, 11} <= {len(shown) for shown in histories}
    # What was prepared comes back: the outputs alone are new.
    gapped = next(shown for shown in histories if len(shown) == 5)
    back = {"session_id": "s", "turn_id": "4", "input_items": [*gapped, *outputs]}
    assert (await ana.http.post(AFTER, json=back)).status_code == 200
    stored = (await ana.http.post(BEFORE, json={**asked, "turn_id": "5", "current_input": [said("so?")]})).json()
    assert stored["input_items"][-len(whole) - 3 :] == [*whole, *outputs, said("so?")]
