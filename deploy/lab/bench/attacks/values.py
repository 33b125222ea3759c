"""Attacks by JSON: very many small values, in every place and encoding where a body is parsed; and long histories."""

import json
from typing import Any

from deploy.lab.bench.attacks.attack import RequiredEnding, attack
from deploy.lab.bench.attacks.attacker import BANK, Attacker

#: Values of a body of 1.8 MB, in UTF-8 and in UTF-16, and items of a history just within the limit of values.
MANY, MANY_IN_UTF16, ITEMS = 600_000, 400_000, 10_000
LANES, MOST = 4, 24


async def _call_tool(attacker: Attacker, where: str) -> None:
    asked = {"name": "memory_search", "arguments": {"query": "who?"}, where: {"many": [0] * MANY}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked}
    body = json.dumps(message).encode()
    await attacker.keep_at(LANES, lambda: attacker.call("POST", "/mcp", body), most=MOST)


@attack("mcp_values", "24 calls of a tool with 600,000 values", RequiredEnding.BE_REFUSED)
async def _send_mcp_values(attacker: Attacker) -> None:
    await _call_tool(attacker, "arguments")


@attack("mcp_meta", "24 calls of a tool with 600,000 values in _meta", RequiredEnding.BE_REFUSED)
async def _send_mcp_meta(attacker: Attacker) -> None:
    await _call_tool(attacker, "_meta")


@attack("utf16_values", "24 batches of 400,000 values in UTF-16", RequiredEnding.BE_REFUSED)
async def _send_utf16_values(attacker: Attacker) -> None:
    body = json.dumps({"turns": [0] * MANY_IN_UTF16}, separators=(",", ":")).encode("utf-16")
    await attacker.keep_at(LANES, lambda: attacker.call("POST", "/api/v1/turns:batch", body), most=MOST)


def _make_items(number: int) -> list[dict[str, Any]]:
    return [{"role": "user", "content": f"line {n}"} for n in range(number)]


@attack("history_before", "24 prepared turns that bring a history of 10,000 items")
async def _prepare_with_history(attacker: Attacker) -> None:
    turn = {"bank": BANK, "session_id": "s", "turn_id": "t"}
    body = {**turn, "conversation_items": _make_items(ITEMS), "current_input_start": ITEMS - 1}
    await attacker.keep_at(LANES, lambda: attacker.call("POST", "/api/v1/turns/before", body), most=MOST)


@attack("history_after", "24 completed turns that bring a history of 10,000 items")
async def _complete_with_history(attacker: Attacker) -> None:
    def make_body() -> dict[str, Any]:
        turn = {"bank": BANK, "session_id": "s", "turn_id": f"t{attacker.number()}"}
        return {**turn, "conversation_items": _make_items(ITEMS), "current_input_start": ITEMS - 1}

    await attacker.keep_at(LANES, lambda: attacker.call("POST", "/api/v1/turns/after", make_body()), most=MOST)
