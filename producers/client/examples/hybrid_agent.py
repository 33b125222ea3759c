"""A small agent with hybrid memory, against any service that speaks OpenAI's chat completions.

    python hybrid_agent.py --config agent.json --model-url http://127.0.0.1:8080/v1 "What is for dinner?"

Without a prompt it reads one a line from standard input. `agent.json` may hold a `memory` section (see the README);
without one the agent goes on with its curated files. MODEL_API_KEY, if set, is the model service's key.
With --afterturn URL and AFTERTURN_API_KEY, turns are handed to Afterturn instead of a gateway.
"""  # noqa: INP001 -- an example is run, not imported

import argparse
import asyncio
import json
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from afterturn_client import AsyncAfterturn
from afterturn_client.hybrid import HybridMemory, Run

INSTRUCTIONS = "You are a helpful agent. Keep what is worth keeping with the memory tool."
MAX_ROUNDS = 8
GAVE_UP = "I could not finish this within my limit of tool calls."


@dataclass(frozen=True)
class Model:
    """A client of a chat completions service, with the loop that lets its model use tools."""

    http: httpx.AsyncClient
    name: str

    async def think(self, run: Run) -> str:
        """Ask the model, run the tools it asks for, and return its final text."""
        messages = [dict(message) for message in run.messages]
        for _round in range(MAX_ROUNDS):
            reply = await self._complete(messages, run.tools)
            calls = reply.get("tool_calls") or []
            if not calls:
                return str(reply.get("content") or "")
            messages.append({"role": "assistant", "content": reply.get("content"), "tool_calls": calls})
            messages += [await _answer_call(run, call) for call in calls]
        return GAVE_UP

    async def _complete(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Mapping[str, Any]:
        body = {"model": self.name, "messages": messages, "tools": tools}
        response = await self.http.post("chat/completions", json=body)
        response.raise_for_status()
        message: Mapping[str, Any] = response.json()["choices"][0]["message"]
        return message


async def _answer_call(run: Run, call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of one tool call; for an unknown tool, an error that the model can handle."""
    function = call["function"]
    if run.offers(function["name"]):
        content = await run.call_tool(function["name"], function["arguments"])
    else:
        content = json.dumps({"ok": False, "error": "unknown_tool"})
    return {"role": "tool", "tool_call_id": call["id"], "content": content}


async def _run_conversation(options: argparse.Namespace) -> None:
    config = json.loads(options.config.read_text()) if options.config else {}
    headers = {"authorization": f"Bearer {key}"} if (key := os.environ.get("MODEL_API_KEY")) else {}
    async with AsyncExitStack() as stack:
        http = httpx.AsyncClient(base_url=options.model_url, headers=headers, timeout=120)
        model = Model(await stack.enter_async_context(http), options.model)
        afterturn = None
        if options.afterturn:
            client = AsyncAfterturn(options.afterturn, os.environ["AFTERTURN_API_KEY"], allow_http=options.allow_http)
            afterturn = await stack.enter_async_context(client)
        memory = await stack.enter_async_context(HybridMemory.open(config, options.home, afterturn=afterturn))
        for prompt in [options.prompt] if options.prompt else sys.stdin:
            result = await memory.run(options.session, prompt.strip(), model.think, instructions=INSTRUCTIONS)
            sys.stdout.write(f"{result.text}\n")
            sys.stdout.flush()


def main() -> None:
    """Read the command line and run the agent."""
    parser = argparse.ArgumentParser(description="An agent with hybrid memory.")
    parser.add_argument("prompt", nargs="?")
    parser.add_argument("--config", type=Path, help="JSON file that may hold a memory section")
    parser.add_argument("--home", type=Path, default=Path.home() / ".hybrid-agent", help="the profile's folder")
    parser.add_argument("--session", default="main")
    parser.add_argument("--model-url", required=True, help="for example http://127.0.0.1:8080/v1")
    parser.add_argument("--model", default="default")
    parser.add_argument("--afterturn", help="URL of an Afterturn service")
    parser.add_argument("--allow-http", action="store_true", help="send its key in clear to another machine")
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(_run_conversation(parser.parse_args()))


if __name__ == "__main__":
    main()
