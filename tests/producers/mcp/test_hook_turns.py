"""What the hooks of coding agents keep, in the real service: each turn once and whole."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.producers.conftest import Tenant, World
from tests.producers.mcp.test_hook_echoes import entry, run_hook
from tests.serving import serve

SESSION = "5f2d9a10"
SECRET = "sk-ant-api03-" + "Ab3dEf9hIj2kLm5nOp8qRs1tUv4wXy7z" * 2


class Agent:
    """An agent in a session: its transcript, and what it tells its hooks."""

    def __init__(self, url: str, tenant: Tenant, folder: Path) -> None:
        self.url, self.tenant, self.file = url, tenant, folder / "t.jsonl"
        self.event = {"session_id": SESSION, "transcript_path": str(self.file), "cwd": str(folder)}
        self.lines: list[str] = []

    def write(self, *lines: tuple[str, Any, str]) -> None:
        self.lines += [entry(*line) for line in lines]
        self.file.write_text("\n".join(self.lines) + "\n")

    async def run(self, event: str, **more: Any) -> None:
        await run_hook(self.url, self.tenant.token, event, {**self.event, **more})

    async def kept(self) -> list[list[str]]:
        place = {"bank": "default", "session_id": SESSION}
        turns = (await self.tenant.http.get("/api/v1/turns", params=place)).json()["turns"]
        found = []
        for turn in turns:
            status = await self.tenant.http.get("/api/v1/turns", params={**place, "turn_id": turn["turn_id"]})
            found.append([message["content"] for message in status.json()["messages"]])
        return found


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
