"""`afterturn memory`: a folder of the file engine against the real API: what comes in, once, and how it compares."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from typer.testing import CliRunner, Result

from deploy.cli import turn_sender
from deploy.cli.app import build_cli
from deploy.cli.file_engine import intake
from deploy.cli.file_engine.layout import SessionFolder, find_sessions
from deploy.cli.file_engine.turns import read_turns
from tests.client.loopback import closed_port
from tests.deploy.cli.engine_folder import BAD, CALL, RESULT, lines, log_turn, say, write, write_project
from tests.deploy.native_double import NativeDouble, stand_in
from tests.producers.conftest import Tenant, World, ana, world  # noqa: F401 - fixtures
from tests.serving import serve


class Project:
    """A project's folder, and a data folder whose stack is the test's own API."""

    def __init__(self, folder: Path, data: Path, tenant: Tenant) -> None:
        self.folder, self.data, self.tenant = folder, data, tenant

    async def run(self, command: str, *options: str) -> Result:
        """Run a command in a thread: the API answers on the test's own loop."""
        arguments = ["memory", command, str(self.folder), "--data", str(self.data), *options]
        return await asyncio.to_thread(CliRunner().invoke, build_cli("memory"), arguments)

    async def answer(self, command: str, *options: str) -> tuple[dict[str, Any], int]:
        result = await self.run(command, "--json", *options)
        assert result.stdout, result.exception or result.stderr
        told = [line for line in result.stdout.splitlines() if line.startswith('{"')]
        return json.loads(told[-1]), result.exit_code

    async def get(self, path: str, **params: Any) -> Any:
        found = await self.tenant.http.get(path, params=params)
        assert found.status_code == 200, found.text
        return found.json()


@pytest_asyncio.fixture(loop_scope="session")
async def project(
    world: World,  # noqa: F811 - the fixtures
    ana: Tenant,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Project]:
    monkeypatch.setattr(turn_sender, "defer_interrupt", nullcontext)  # signals are the main thread's
    data = tmp_path / "data"
    async with serve(world.app) as url:
        lock = stand_in(data, SimpleNamespace(url=url), NativeDouble())  # type: ignore[arg-type]  # as of a loopback
        (data / "api-key").write_text(ana.token)
        yield Project(write_project(tmp_path / "project"), data, ana)
        lock.release()


async def test_a_dry_run_reads_everything_and_changes_nothing(project: Project) -> None:
    told, status = await project.answer("import", "--dry-run")
    bad = {(one["file"].removeprefix("memory/wednesday/"), one["line"]): one["reason"] for one in told.pop("bad")}
    assert bad == BAD
    assert told == {
        "sessions": 3,
        "events": 9,
        "repeated_events": 13,
        "own_events": 1,
        "turns": {"read": 5},
        "facts": {"from_turns": 1, "ended": 1, "kept": 4, "known": 0},
    }
    assert status == 1
    assert (await project.get("/api/v1/sessions"))["sessions"] == []
    shown = await project.run("import", "--dry-run")
    assert "3 sessions; 9 events" in shown.stdout
    assert "memory/wednesday/events/raw/2026/03/03/log-20260303.jsonl:7: an event without turn_id" in shown.stderr
    assert "nobody" not in shown.stdout + shown.stderr


async def test_sessions_come_in_whole_and_again_nothing_is_added(project: Project) -> None:
    told, status = await project.answer("import")
    sent = {"read": 5, "accepted": 5, "duplicates": 0, "conflicts": 0, "erased": 0}
    assert (told["turns"], status) == (sent, 1)
    assert told["facts"] == {"from_turns": 1, "ended": 1, "kept": 4, "known": 0}
    monday = await project.get("/api/v1/turns", session_id="monday")
    assert [one["turn_id"] for one in monday["turns"]] == ["m1", "m2"]
    before = {"session_id": "monday", "turn_id": "m3", "current_input": [say("And when?")], "user_id": "alice"}
    prepared = (await project.tenant.http.post("/api/v1/turns/before", json=before)).json()
    assert [item for item in prepared["input_items"] if item in (CALL, RESULT)] == [CALL, RESULT]
    assert "user_name" in prepared["recall_fact_ids"]
    memory = await project.get("/api/v1/units", limit=1000)
    kept = {one["text"] for one in memory["units"] if one["origin"] == "memory"}
    assert kept == {"allergy: peanuts", "I like hiking.", "home: Bremen", "cat: Tom"}

    again, _ = await project.answer("import")
    assert again["turns"] == {"read": 5, "accepted": 0, "duplicates": 5, "conflicts": 0, "erased": 0}
    assert (again["facts"]["kept"], again["facts"]["known"]) == (0, 4)
    assert await project.get("/api/v1/units", limit=1000) == memory


async def test_a_longer_folder_adds_what_is_new_and_a_turn_kept_by_another_call_stays(project: Project) -> None:
    kept = {"session_id": "tuesday", "turn_id": "t1", "input_items": [say("Another text.")]}
    assert (await project.tenant.http.post("/api/v1/turns/after", json=kept)).status_code == 200
    first, _ = await project.answer("import")
    assert (first["turns"]["accepted"], first["turns"]["conflicts"]) == (4, 1)
    session = project.folder / "memory" / "monday"
    more = log_turn("m3", "2026-03-04T09:00:00Z", [say("The train is late.")])
    write(session, "events/raw/2026/03/04/log-20260304.jsonl", lines(more))
    for name in ("wednesday", "tuesday"):
        (project.folder / "memory" / name).rename(project.folder / name)
    second, status = await project.answer("import")
    assert second["turns"] == {"read": 3, "accepted": 1, "duplicates": 2, "conflicts": 0, "erased": 0}
    assert status == 0


async def test_an_interrupted_import_goes_on_and_adds_nothing_twice(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = list[int]()

    class Interrupted(turn_sender.TurnSender):
        def _count_results(self, batch: Any, results: Any) -> Any:
            sent.append(len(batch))
            if len(sent) == 2:
                raise KeyboardInterrupt
            return super()._count_results(batch, results)

    with monkeypatch.context() as patched:
        patched.setattr(intake, "TurnSender", Interrupted)
        stopped = await project.run("import")
    assert stopped.exit_code == 130
    assert "interrupted after 1 of 3 sessions. Run the same command again" in stopped.stderr
    told, _ = await project.answer("import")
    # The second session had been stored, and its answer was lost.
    assert told["turns"] == {"read": 5, "accepted": 2, "duplicates": 3, "conflicts": 0, "erased": 0}
    assert told["facts"] == {"from_turns": 1, "ended": 1, "kept": 2, "known": 2}


async def test_a_service_that_is_away_is_waited_for_and_then_given_up(project: Project) -> None:
    stack = project.data / "stack.json"
    stack.write_text(re.sub(r'"http://127.0.0.1:\d+', f'"{closed_port()}', stack.read_text()))
    for command in ("import", "compare"):
        result = await project.run(command, "--patience", "0.1")
        assert (result.exit_code, "gave up" in result.stderr) == (1, True)


async def test_events_without_an_id_come_in_once(project: Project) -> None:
    session = project.folder / "memory" / "sunday"
    [event] = log_turn("s1", "2026-03-04T09:00:00Z", [say("The train is late.")])
    del event["id"]
    for place in ("log.jsonl", "context.jsonl", "events/raw/2026/03/04/log-20260304.jsonl"):
        write(session, place, lines([event]))
    found = read_turns(SessionFolder(session), "default")
    assert (found.events, found.repeated, [len(one.turn.messages) for one in found.turns]) == (1, 2, [1])


async def test_a_folder_without_sessions_is_wrong_usage(project: Project) -> None:
    (project.folder / "memory").rename(project.folder / "else")
    for command in ("import", "compare"):
        result = await project.run(command)
        assert (result.exit_code, "holds no session" in result.stderr) == (2, True)


async def test_sides_are_compared_without_content(project: Project) -> None:
    missing, status = await project.answer("compare")
    assert [one["missing_turns"] for one in missing["sessions"]] == [["m1", "m2"], ["t1"], ["w1", "w2"]]
    assert (missing["equal"], status) == (False, 1)
    await project.run("import")
    output = {"recall_fact_ids": ["user_name", "user_hat"], "context_token_count": 77}
    call = {"session_id": "monday", "turn_id": "m9", "user_id": "alice", "current_input": [say("Who am I?")]}
    recorded = [call | {"output": output}, call | {"output": {}}, {"turn_id": "m8", "output": output}]
    (project.folder / "before_turns.jsonl").write_bytes(lines(recorded))
    told, status = await project.answer("compare")
    assert status == 1
    monday = told["sessions"][0]
    assert (monday["turns"], monday["items"]) == ({"theirs": 2, "ours": 2}, {"theirs": 6, "ours": 6})
    assert monday["missing_turns"] == []
    assert set(monday["facts"]["theirs"]) == {"user_name", "user_allergy", "user_like"}
    assert monday["facts"]["ours"] == ["user_name"]
    assert (monday["files"]["events/raw"], monday["files"]["events/archive"], monday["files"]["memory_tiers"]) == (
        1,
        1,
        0,
    )
    [turn] = told["turns"]
    assert turn["facts"]["only_theirs"] == ["user_hat"]
    assert "user_name" in turn["facts"]["ours"]
    assert turn["facts"]["same_order"]
    assert turn["tokens"]["theirs"] == 77
    assert turn["tokens"]["ours"] > 0
    reasons = [(one["line"], one["reason"]) for one in told["bad"] if one["file"] == "before_turns.jsonl"]
    assert [line for line, _ in reasons] == [2, 3]
    shown = await project.run("compare")
    for content in ("peanuts", "hiking", "Alice", "gate", "Who am I"):
        assert content not in json.dumps(told) + shown.stdout + shown.stderr


async def test_equal_sides_end_well(project: Project) -> None:
    for name in ("wednesday", "tuesday"):
        (project.folder / "memory" / name).rename(project.folder / name)
    await project.run("import")
    call = {"session_id": "monday", "turn_id": "m9", "user_id": "alice", "current_input": [say("Who am I?")]}
    output = {"recall_fact_ids": ["user_name"], "context_token_count": 77}
    (project.folder / "elsewhere.jsonl").write_bytes(lines([call | {"output": output}]))
    told, status = await project.answer("compare", "--recorded", str(project.folder / "elsewhere.jsonl"))
    assert (told["equal"], told["bad"], status) == (True, [], 0)


def test_sessions_are_found_from_the_project_its_memory_and_themselves_and_links_are_not_followed(
    tmp_path: Path,
) -> None:
    folder = write_project(tmp_path / "project")
    for root in (folder, folder / "memory"):
        assert [one.name for one in find_sessions(root)] == ["monday", "tuesday", "wednesday"]
    assert [one.name for one in find_sessions(folder / "memory" / "tuesday")] == ["tuesday"]
    assert find_sessions(folder / "memory" / "empty") == []
