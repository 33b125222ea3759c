"""What the hooks of coding agents keep, in the real service: each turn once and whole."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.producers.conftest import Tenant, World
from tests.producers.mcp.test_hook_echoes import entry, run_hook
from tests.serving import serve

SESSION = "5f2d9a10"
PLACE = {"bank": "default", "session_id": SESSION}
SECRET = "sk-ant-api03-" + "Ab3dEf9hIj2kLm5nOp8qRs1tUv4wXy7z" * 2


class Agent:
    """An agent in a session: its transcript, and what it tells its hooks."""

    def __init__(self, url: str, tenant: Tenant, folder: Path) -> None:
        self.url, self.tenant, self.file = url, tenant, folder / "t.jsonl"
        self.event = {"session_id": SESSION, "transcript_path": str(self.file), "cwd": str(folder)}
        self.lines: list[str] = []

    def write(self, *lines: tuple[str, Any, str]) -> None:
        self.lines += [queue(line[1]) if line[0] == "attachment" else entry(*line) for line in lines]
        self.file.write_text("\n".join(self.lines) + "\n")

    async def run(self, event: str, **more: Any) -> None:
        await run_hook(self.url, self.tenant.token, event, {**self.event, **more})

    async def names(self) -> list[str]:
        turns = (await self.tenant.http.get("/api/v1/turns", params=PLACE)).json()["turns"]
        return [turn["turn_id"] for turn in turns]

    async def kept(self) -> list[list[str]]:
        found = []
        for name in await self.names():
            status = await self.tenant.http.get("/api/v1/turns", params={**PLACE, "turn_id": name})
            found.append([message["content"] for message in status.json()["messages"]])
        return found


def queue(text: str) -> str:
    """Return the line of a prompt that was typed, and told to the model, while a turn was under way."""
    told = {"type": "queued_command", "prompt": text, "commandMode": "prompt"}
    return json.dumps({"type": "attachment", "attachment": told})


@pytest.mark.parametrize("late", [False, True], ids=["transcript in time", "transcript late"])
async def test_a_turn_that_went_on_is_kept_whole_and_once(
    world: World,
    ana: Tenant,
    tmp_path: Path,
    late: bool,  # noqa: FBT001
) -> None:
    pieces = ["First attempt done.", f"The key is {SECRET}.", "The gear has 17 teeth.", "ok"]
    async with serve(world.app) as url:
        agent = Agent(url, ana, tmp_path)
        agent.write(("user", "Fix the mill", "p1"))
        for n, piece in enumerate(pieces):
            if not late:
                agent.write(("assistant", piece, f"a{n}"))
            for _ in range(2):
                await agent.run("stop", last_assistant_message=piece)
            if late:
                agent.write(("assistant", piece, f"a{n}"))
        agent.write(("user", "next", "p2"))
        await agent.run("pre-compact")
        kept = await agent.kept()
    assert kept[0] == ["Fix the mill", pieces[0]]
    assert [len(turn) for turn in kept[1:]] == [1, 1, 1]
    assert "REDACTED" in kept[1][0]
    assert [kept[2], kept[3]] == [[pieces[2]], [pieces[3]]]


INTERRUPTED = ("user", "[Request interrupted by user]", "i")
FIRST, SECOND = ("user", "Fix the mill", "p1"), ("user", "And the gear", "p2")
PART, DONE = ("assistant", "Working on it.", "a1"), ("assistant", "The gear has 17 teeth.", "a2")
HELLO, HI = ("user", "Hello", "p0"), ("assistant", "Hi.", "a0")
AGAIN, HASTE = ("user", FIRST[1], "p2"), ("user", "Quickly", "p3")
QUEUED = ("attachment", "Mind the belt", "q")
Lines = list[tuple[str, Any, str]]
#: What is added to the transcript before the hook of a turn's end is called, each time twice; and the turns kept.
ENDS: dict[str, tuple[list[Lines], dict[str, list[tuple[str, Any, str]]]]] = {
    "a second prompt before an answer": ([[FIRST, SECOND, DONE]], {"p1": [FIRST], "p2": [SECOND, DONE]}),
    "an interruption": ([[FIRST, INTERRUPTED, SECOND, DONE]], {"p1": [FIRST], "p2": [SECOND, DONE]}),
    "an interruption within an answer": (
        [[FIRST, PART, INTERRUPTED, SECOND, DONE]],
        {"p1": [FIRST, PART], "p2": [SECOND, DONE]},
    ),
    "a second prompt within an answer": (
        [[FIRST, PART, SECOND, DONE]],
        {"p1": [FIRST, PART], "p2": [SECOND, DONE]},
    ),
    "three prompts": ([[FIRST, SECOND, HASTE, DONE]], {"p1": [FIRST], "p2": [SECOND], "p3": [HASTE, DONE]}),
    "the same prompt again": ([[FIRST, AGAIN, DONE]], {"p2": [AGAIN, DONE]}),
    "turns before and after": (
        [[HELLO, HI], [FIRST, SECOND, DONE], [HASTE, PART]],
        {"p0": [HELLO, HI], "p1": [FIRST], "p2": [SECOND, DONE], "p3": [HASTE, PART]},
    ),
    "a turn that went on": (
        [[FIRST, SECOND, PART], [DONE]],
        {"p1": [FIRST], "p2": [SECOND, PART], "p2:": [DONE]},
    ),
    "the next prompt is there already": (
        [[FIRST, PART, SECOND], [DONE]],
        {"p1": [FIRST, PART], "p2": [SECOND, DONE]},
    ),
    "words while a turn went on": ([[FIRST, PART], [QUEUED, DONE]], {"p1": [FIRST, PART], "p1:": [QUEUED, DONE]}),
}


@pytest.mark.live
@pytest.mark.parametrize("name", ENDS)
async def test_prompts_before_one_end_are_kept_in_order_once_under_their_own_names(
    world: World, ana: Tenant, tmp_path: Path, name: str
) -> None:
    ends, turns = ENDS[name]
    async with serve(world.app) as url:
        agent = Agent(url, ana, tmp_path)
        for lines in ends:
            agent.write(*lines)
            said = [text for kind, text, _ in lines if kind == "assistant"][-1]
            for _ in range(2):
                await agent.run("stop", last_assistant_message=said)
        agent.write(("user", "under way", "p9"))
        await agent.run("pre-compact")
        assert await agent.kept() == [[text for _, text, _ in turn] for turn in turns.values()]
        assert [one[:3] for one in await agent.names()] == [*turns]


async def test_one_turn_that_is_refused_loses_no_other(world: World, ana: Tenant, tmp_path: Path) -> None:
    async with serve(world.app) as url:
        agent = Agent(url, ana, tmp_path)
        agent.write(
            ("user", "one", "p1"), ("assistant", "1", "a1"), ("user", "two", "x" * 5_000), ("assistant", "2", "a2"),
            ("user", "three", "p3"), ("assistant", "3", "a3"), ("user", "under way", "p4"),
        )  # fmt: skip
        await agent.run("pre-compact")
        kept = await agent.kept()
    assert [turn[0] for turn in kept] == ["one", "three"]
    assert json.dumps(kept).count("under way") == 0
