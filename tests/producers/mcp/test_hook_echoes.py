"""Thirty turns through the hooks and MCP at once: what memory showed is never kept as something said (law L8)."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from store import identity
from tests.patience import PATIENCE_S, until
from tests.producers.conftest import Tenant, World
from tests.producers.mcp.test_tools import call, client_of, said
from tests.serving import serve

pytestmark = pytest.mark.nightly

TURNS = 30
SESSION = "5f2d9a10"
UNITS = "select content from afterturn.agent_memory_unit_t where host_id = :h and origin = 'message' and active"


async def run_hook(url: str, key: str, event: str, given: dict[str, Any]) -> str:
    """Run the client's own program, as an agent does; returns what it wrote for the agent."""
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "afterturn_client.command", "hook", "claude-code", event, "--url", url),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={
            **os.environ,
            "AFTERTURN_API_KEY": key,
            "AFTERTURN_HOOK_SECONDS": str(PATIENCE_S),
            "XDG_STATE_HOME": f"{given['cwd']}/state",
        },
    )
    told, _ = await started.communicate(json.dumps(given).encode())
    assert started.returncode == 0
    return told.decode()


def carry(n: int, frame: str) -> tuple[Any, str]:
    """Return a prompt and an answer that repeat a frame: in a fence, split over parts, escaped, quoted by lines."""
    asked, middle = f"turn {n}: the boiler of house {n}", len(frame) // 2
    escaped = json.dumps({"log": frame}).replace("<", "\\u003c").replace(">", "\\u003e")
    quoted = "\n".join(f"> > {line}" for line in frame.split("\n"))
    parts = [{"type": "text", "text": frame[:middle]}, {"type": "text", "text": f"{frame[middle:]}\n{asked}"}]
    return [
        (f"```\n{frame}\n```\n{asked}", f"answer {n}"),
        (parts, f"answer {n}"),
        (asked, f"The tool said {escaped}\nanswer {n}"),
        (f"{frame}\n{asked}", f"> {frame}\nanswer {n}"),
        (f"{quoted}\n{asked}", f"{quoted}\nanswer {n}"),
    ][n % 5]


def entry(kind: str, content: Any, name: str) -> str:
    return json.dumps({"type": kind, "uuid": name, "message": {"role": kind, "content": content}})


@pytest.mark.law("L8")
async def test_thirty_turns_through_hooks_and_mcp_keep_no_echo(world: World, ana: Tenant, tmp_path: Path) -> None:
    """A hook gives up after two seconds, and an agent calls it again with its next event: so does this, until it is
    kept."""
    folder = tmp_path / "garden"
    (folder / ".git").mkdir(parents=True)
    transcript = tmp_path / "t.jsonl"
    event = {"session_id": SESSION, "transcript_path": str(transcript), "cwd": str(folder)}
    host, lines, frames = identity.host_id(ana.host), [], 0
    async with serve(world.app) as url, client_of(world, ana) as client:
        for n in range(TURNS):
            asked = f"turn {n}: the boiler of house {n}"
            hooked = await run_hook(url, ana.token, "prompt", {**event, "session_id": f"other {n}", "prompt": asked})
            shown = await call(client, "memory_before_turn", project="garden", session_id="b", current_input=asked)
            texts = [item["content"][0]["text"] for item in shown["input_items"][:-1]]
            frame = next((text for text in texts if text.startswith("<memory_reference>")), "")
            if hooked:
                frames += 1
                frame = json.loads(hooked)["hookSpecificOutput"]["additionalContext"]
            prompt, answer = carry(n, frame)
            lines += [entry("user", prompt, f"u{n}"), entry("assistant", [{"type": "text", "text": answer}], f"a{n}")]
            transcript.write_text("\n".join(lines))

            async def kept(n: int = n) -> bool:
                await run_hook(url, ana.token, "stop", {**event, "hook_event_name": "Stop"})
                return len(await world.sql(UNITS, h=host)) >= 4 * n + 2

            await until(kept, f"turn {n} is kept")
            # The same is said to another session over MCP, the frame beside it.
            items = [*shown["input_items"][:-1], said(f"{frame}\n{asked} (b)")]
            given = {"project": "garden", "session_id": "b", "turn_id": str(n), "input_items": items}
            await call(client, "memory_after_turn", **given, output_items=[said(f"answer {n} (b)", "assistant")])
    found = [row.content for row in await world.sql(UNITS, h=host)]
    assert frames > 0
    assert [text for text in found if "historical_memory" in text or "<memory_reference" in text] == []
    for n in range(TURNS):
        whole = [text for text in found if text.strip("`\n ").endswith(f"turn {n}: the boiler of house {n}")]
        assert len(whole) == 1, (n, whole)
        assert sum(text.endswith(f"house {n} (b)") for text in found) == 1
    assert len(found) == 4 * TURNS
