"""Messages as agents have them: items of chat completions and of Responses come in as they are, and are kept whole."""

from typing import Any

import pytest

from tests.producers.conftest import Tenant

TURNS, BEFORE, RECALL = "/api/v1/turns", "/api/v1/turns/before", "/api/v1/recall"
CHAT: list[dict[str, Any]] = [
    {"role": "developer", "content": "Answer in French."},
    {"role": "user", "name": "Ana", "content": "How warm is it in Lisbon?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Lisbon"}'}},
            {"id": "c2", "type": "function", "function": {"name": "clock", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "31 degrees"},
    {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "noon"}]},
    {"role": "assistant", "content": "It is 31 degrees.", "refusal": None, "annotations": []},
]
RESPONSES: list[dict[str, Any]] = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "How warm is it in Lisbon?"}]},
    {"type": "reasoning", "id": "r", "encrypted_content": "gAAA", "summary": []},
    {"type": "function_call", "call_id": "c", "name": "weather", "arguments": '{"city": "Lisbon"}'},
    {"type": "function_call_output", "call_id": "c", "output": "31 degrees"},
    {"type": "unheard_of", "deep": {"n": [1.5, None]}},
    {"type": "message", "id": "m", "status": "completed", "role": "assistant",
     "content": [{"type": "output_text", "text": "It is 31 degrees.", "annotations": []}]},
]  # fmt: skip


def turn(messages: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"session_id": "s", "turn_id": "1", "messages": messages, **more}


async def history(tenant: Tenant) -> list[Any]:
    asked = {"session_id": "s", "turn_id": "next", "current_input": [{"role": "user", "content": "so?"}]}
    shown = (await tenant.http.post(BEFORE, json=asked)).json()["input_items"]
    assert shown[-1] == asked["current_input"][0]
    return list(shown[:-1])


@pytest.mark.parametrize("items", [CHAT, RESPONSES])
async def test_items_are_taken_as_they_are_and_given_back_whole(ana: Tenant, items: list[dict[str, Any]]) -> None:
    kept = await ana.http.post(TURNS, json=turn(items))
    assert kept.status_code == 201, kept.text
    again = await ana.http.post(TURNS, json=turn(items))
    assert (again.status_code, again.json()["position"]) == (200, kept.json()["position"])
    shown = await history(ana)
    whole = [item for item in items if set(item) - {"role", "name", "content"} or item["role"] == "developer"]
    assert [item for item in shown if item in items] == whole
    assert len(shown) == len(items)
    found = (await ana.http.post(RECALL, json={"query": "degrees in Lisbon", "k": 10})).json()["results"]
    assert {"How warm is it in Lisbon?", "31 degrees", "It is 31 degrees."} <= {one["text"] for one in found}


async def test_who_spoke_and_which_tool_was_called_are_told(ana: Tenant) -> None:
    await ana.http.post(TURNS, json=turn(CHAT))
    found = (await ana.http.post(RECALL, json={"query": "weather clock Lisbon", "k": 20})).json()["results"]
    told = {(one["role"], one["name"], one["text"]) for one in found}
    assert ("user", "Ana", "How warm is it in Lisbon?") in told
    assert ("assistant", None, "[function_call: weather]\n[function_call: clock]") in told
    assert ("system", None, "Answer in French.") in told


async def test_a_turn_may_have_as_many_messages_as_a_call_has_items(ana: Tenant) -> None:
    many = [{"role": "user", "content": f"fact {n}"} for n in range(1024)]
    assert (await ana.http.post(TURNS, json=turn(many))).status_code == 201
    refused = await ana.http.post(TURNS, json=turn([*many, many[0]], turn_id="2"))
    assert (refused.status_code, "max_messages" in refused.text) == (422, True)


@pytest.mark.parametrize(
    "message",
    [
        {"type": 7},
        {"type": "message", "role": 7, "content": "x"},
        {"tool_calls": []},
        {"role": "user", "content": "x", "unknown": 1},
        {"role": "user", "content": None},
        {"role": "wizard", "content": "x"},
        {"type": "message", "role": "user", "name": 7, "content": "x"},
        {"type": "message", "role": "user", "content": "nul \0"},
    ],
)
async def test_what_is_neither_ours_nor_an_item_is_refused(ana: Tenant, message: dict[str, Any]) -> None:
    reply = await ana.http.post(TURNS, json=turn([message]))
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "INVALID_ARGUMENT")


@pytest.mark.law("L8")
async def test_a_frame_within_an_item_is_taken_out_and_a_blank_one_is_left_out(ana: Tenant) -> None:
    await ana.http.post(TURNS, json=turn([{"role": "user", "content": "We fly to Lisbon on Friday"}]))
    frame = (await ana.http.post(RECALL, json={"query": "Lisbon"})).json()["reference"]["content"]
    items: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": frame}]},
        {"type": "message", "role": "user", "content": "  "},
        {"type": "message", "role": "user", "content": f"{frame}\nand the hotel?"},
    ]
    assert (await ana.http.post(TURNS, json=turn(items, turn_id="2"))).status_code == 201
    shown = await history(ana)
    assert "memory_reference" not in str(shown[1:])
    assert len(shown) == 2
    only = await ana.http.post(TURNS, json=turn(items[:2], turn_id="3"))
    assert (only.status_code, "nothing to remember" in only.text) == (422, True)


async def test_an_item_past_the_limit_of_a_message_is_too_large(ana: Tenant) -> None:
    item = {"type": "function_call_output", "call_id": "c", "output": "long " * 60_000}
    reply = await ana.http.post(TURNS, json=turn([item]))
    assert (reply.status_code, reply.json()["error"]["code"]) == (413, "PAYLOAD_TOO_LARGE")
