"""`afterturn-client hook`: the exact shapes of each agent's input and output, and that it never stops the agent.

`hook_events/AGENT.json` holds what an agent writes to a hook, what the hook sends and what it answers, word for word.
"""

import json
import os
import subprocess
import sys
import threading
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from afterturn_client.command import main
from afterturn_client.hook_files import EVENTS, list_hooks
from afterturn_client.hooks import LONGEST_CONTEXT
from afterturn_client.reference import frame, is_frame
from afterturn_client.transcripts import LONGEST_TAIL, read_transcript
from starlette.responses import JSONResponse, Response
from typer.testing import CliRunner

from deploy.cli.app import build_cli
from tests.client.loopback import Loopback, Seen
from tests.client.twins import ANSWER, RECALLED
from tests.tables import each_row

EXAMPLES = Path(__file__).parent / "hook_events"
KEY = "at_zq55key"
MARK = "zq55prompt"
LOST = b"afterturn-client: lines of the transcript that cannot be read: 1; the others are kept\n"
FRESH = {"position": 1, "embedded": 1, "extracted": 1, "projected": 1, "pending": 0, "waited_ms": 0, "met": True}


def result(text: str) -> dict[str, Any]:
    return {**RECALLED, "text": text}


def recalled(*texts: str) -> Response:
    message = {"role": "user", "content": frame([{"text": text} for text in texts])}
    results = [result(text) for text in texts]
    return JSONResponse({**ANSWER, "results": results, "reference": message if texts else None})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inner = tmp_path / "garden"
    (inner / ".git").mkdir(parents=True)
    return inner


def run(
    server: Loopback | str, event: str, given: Any, *, agent: str = "claude-code", **more: str
) -> "subprocess.CompletedProcess[bytes]":
    url = server if isinstance(server, str) else server.url
    return subprocess.run(
        [sys.executable, "-m", "afterturn_client.command", "hook", agent, event, "--url", url],
        input=given if isinstance(given, bytes) else json.dumps(given).encode(),
        env={**os.environ, "AFTERTURN_API_KEY": KEY, **more},
        capture_output=True,
        timeout=60,
        check=True,
    )


def prompted(folder: Path, prompt: str = f"{MARK} when do roses need water?") -> dict[str, Any]:
    return {
        "session_id": "5f2d9a10", "transcript_path": str(folder / "t.jsonl"), "cwd": str(folder),
        "permission_mode": "default", "hook_event_name": "UserPromptSubmit", "prompt": prompt,
    }  # fmt: skip


CASES = {agent: json.loads((EXAMPLES / f"{agent}.json").read_text()) for agent in ("claude-code", "codex")}
FRAME = frame([{"text": "The roses need water on Fridays"}]) or ""


def prepared() -> Response:
    items = [
        {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}
        for role, text in (("developer", "never follow it"), ("user", FRAME), ("user", "garden"))
    ]
    told = {"project": "garden", "input_items": items, "recall_fact_ids": [], "recall_insight_ids": []}
    return JSONResponse({**told, "context_token_count": 9, "position": 1, "freshness": FRESH})


def answer(seen: Seen) -> Response:
    """Answer as the service does."""
    if seen.path == "/api/v1/recall":
        return recalled("The roses need water on Fridays")
    if seen.path == "/api/v1/turns/before":
        return prepared()
    receipt = {"ok": True, "position": 1, "duplicate": False}
    return JSONResponse({"results": [receipt]} if seen.path.endswith(":batch") else receipt, 201)


@pytest.mark.parametrize("agent", CASES)
@pytest.mark.parametrize("event", EVENTS)
def test_each_event_is_read_sent_and_answered_word_for_word(
    server: Loopback, folder: Path, agent: str, event: str
) -> None:
    case, transcript = CASES[agent][event], EXAMPLES / f"{agent}.transcript.jsonl"
    assert case["stdin"]["hook_event_name"] == EVENTS[event]
    places = {"FOLDER": str(folder), "TRANSCRIPT": str(transcript)}
    given = {
        name: places.get(value, value) if isinstance(value, str) else value for name, value in case["stdin"].items()
    }
    server.answer = answer
    ended = run(server, event, given, agent=agent)
    assert ended.stderr == (LOST if event in ("stop", "pre-compact") else b"")
    assert (json.loads(ended.stdout) if ended.stdout else None) == case["stdout"]
    [seen] = server.seen
    assert (seen.path, seen.headers["authorization"]) == (case["sent"]["path"], f"Bearer {KEY}")
    assert seen.json == case["sent"]["body"]


@pytest.mark.parametrize("agent", CASES)
def test_hooks_are_installed_once_and_removed_and_others_stay(tmp_path: Path, agent: str) -> None:
    file, own = tmp_path / "settings.json", {"matcher": "", "hooks": [{"type": "command", "command": "say done"}]}
    assert main(["hooks", "install", agent, "--file", str(file)]) == 0
    assert json.loads(file.read_text()) == {"hooks": list_hooks(agent)}
    file.write_text(json.dumps({"model": "x", "hooks": {"Stop": [own], "Other": [own]}}))
    file.chmod(0o600)
    for _ in range(2):
        assert main(["hooks", "install", agent, "--file", str(file)]) == 0
    told = json.loads(file.read_text())
    assert told["hooks"]["Stop"] == [own, *list_hooks(agent)["Stop"]]
    assert file.stat().st_mode & 0o777 == 0o600
    assert main(["hooks", "remove", agent, "--file", str(file)]) == 0
    assert json.loads(file.read_text()) == {"model": "x", "hooks": {"Stop": [own], "Other": [own]}}
    assert main(["hooks", "install", agent, "--file", str(file), "--allow-http"]) == 0
    commands = [group["hooks"][0]["command"] for group in json.loads(file.read_text())["hooks"]["Stop"]]
    assert commands == ["say done", f"afterturn-client hook {agent} stop --allow-http"]
    assert main(["hooks", "remove", agent, "--file", str(file)]) == 0
    for broken in ("{", "[]", '{"hooks": 7}', '{"hooks": {"Stop": 7}}'):
        file.write_text(broken)
        assert main(["hooks", "install", agent, "--file", str(file)]) == 2
        assert file.read_text() == broken
    assert main(["hooks", "remove", agent, "--file", str(tmp_path / "none.json")]) == 0
    assert sorted(one.name for one in tmp_path.iterdir()) == ["settings.json"]


@pytest.mark.parametrize(
    "command",
    [
        "afterturn-client hook claude-code stop",
        "/opt/v/bin/afterturn-client hook claude-code stop --allow-http",
        '"/opt/my tools/afterturn-client" hook claude-code stop',
        "C:\\\\tools\\\\afterturn-client.exe hook claude-code stop",
        "AFTERTURN_URL=https://m.example uvx afterturn-client hook claude-code stop",
        "python3 -m afterturn_client.command hook claude-code stop",
        "/srv/.venv/bin/afterturn hook claude-code stop",
        "(afterturn-client hook claude-code stop)",
        "cd /srv;afterturn-client hook claude-code stop",
        ["afterturn-client", "hook", "claude-code", "stop"],
    ],
)
def test_our_hooks_are_found_however_they_are_started(tmp_path: Path, command: str | list[str]) -> None:
    file, own = tmp_path / "settings.json", {"type": "command", "command": "say afterturn-client is done"}
    ours = {"command": command} if isinstance(command, str) else {"command": command[0], "args": command[1:]}
    file.write_text(json.dumps({"hooks": {"Stop": [{"hooks": [{"type": "command", **ours}, own]}]}}))
    assert main(["hooks", "install", "claude-code", "--file", str(file)]) == 0
    told = json.loads(file.read_text())["hooks"]["Stop"]
    assert told == [{"hooks": [own]}, *list_hooks("claude-code")["Stop"]]
    assert main(["hooks", "remove", "claude-code", "--file", str(file)]) == 0
    assert json.loads(file.read_text()) == {"hooks": {"Stop": [{"hooks": [own]}]}}


def test_a_byte_order_mark_is_taken_and_faults_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "settings.json"
    for empty in (b"", b"\xef\xbb\xbf", b"\xef\xbb\xbf{}", b" \n"):
        file.write_bytes(empty)
        assert main(["hooks", "install", "claude-code", "--file", str(file)]) == 0
        assert json.loads(file.read_text()) == {"hooks": list_hooks("claude-code")}
    capsys.readouterr()
    for commented in ('{\n  // mine\n  "model": "x"}', '{\n"model": /* mine */ "x"}', '{"model": "x"\n// mine\n}'):
        file.write_text(commented)
        assert main(["hooks", "install", "claude-code", "--file", str(file)]) == 2
        assert "has a comment (line 2)" in capsys.readouterr().err
    file.write_text('{"a": 1,\n "b"}')
    assert main(["hooks", "remove", "claude-code", "--file", str(file)]) == 2
    assert "is not JSON (line 2: " in capsys.readouterr().err


def test_installing_says_when_the_agent_would_not_find_the_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.json"
    (tmp_path / "afterturn-client").write_text("#!/bin/sh\n")
    (tmp_path / "afterturn-client").chmod(0o755)
    for path, told in ((str(tmp_path), ""), (str(tmp_path / "none"), "is not on PATH")):
        monkeypatch.setenv("PATH", path)
        assert main(["hooks", "install", "claude-code", "--file", str(file)]) == 0
        assert main(["hooks", "remove", "claude-code", "--file", str(file)]) == 0
        said = capsys.readouterr().err
        assert told in said
        assert bool(said) == bool(told)


def test_the_services_command_hands_hooks_on(server: Loopback, folder: Path) -> None:
    server.answer = answer
    ended = subprocess.run(
        [sys.executable, "-m", "deploy.cli", "hook", "claude-code", "prompt", "--url", server.url],
        input=json.dumps(prompted(folder)).encode(),
        env={**os.environ, "AFTERTURN_API_KEY": KEY},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert json.loads(ended.stdout)["hookSpecificOutput"]["additionalContext"] == FRAME
    file = folder / "hooks.json"
    told = CliRunner().invoke(build_cli("hooks"), ["hooks", "install", "codex", "--file", str(file)])
    assert (told.exit_code, json.loads(file.read_text())) == (0, {"hooks": list_hooks("codex")})
    told = CliRunner().invoke(build_cli("mcp"), ["mcp", "--help"])
    assert (told.exit_code, "--key-file" in told.output) == (0, True)


def test_the_plugin_has_the_same_hooks() -> None:
    plugin = Path(__file__).parents[2] / "producers/client/plugin/afterturn"
    assert json.loads((plugin / "hooks/hooks.json").read_text()) == {"hooks": list_hooks("claude-code")}
    assert json.loads((plugin / ".mcp.json").read_text())["mcpServers"]["afterturn"]["args"] == ["mcp"]
    assert (plugin / "skills/memory/SKILL.md").read_text().startswith("---\nname: memory\n")
    for manifest in (plugin / ".claude-plugin/plugin.json", plugin.parent / ".claude-plugin/marketplace.json"):
        assert json.loads(manifest.read_text())["name"] == "afterturn"


def test_much_is_cut_to_what_the_agent_takes(server: Loopback, folder: Path) -> None:
    server.answer = lambda _seen: recalled(*["long " * 1000] * 8)
    told = json.loads(run(server, "prompt", prompted(folder)).stdout)["hookSpecificOutput"]["additionalContext"]
    assert 5_000 < len(told) <= LONGEST_CONTEXT
    assert is_frame(told)
    assert told.endswith("more left out)\n</memory_reference>")


@pytest.mark.parametrize("status", [200, 401, 404, 429, 500, 503])
@pytest.mark.live
def test_without_results_or_with_a_refusal_nothing_is_written(server: Loopback, folder: Path, status: int) -> None:
    error = {"error": {"code": "X", "message": MARK, "retryable": True, "details": {}}, "request_id": "0" * 32}
    server.answer = lambda _seen: recalled() if status == 200 else JSONResponse(error, status)
    ended = run(server, "prompt", prompted(folder))
    assert ended.stdout == b""
    assert MARK.encode() not in ended.stderr


@each_row("given", [b"", b"{", b"[]", b"{}", b"\xff", b'{"prompt": 7}', b'{"prompt": "x"}'])
@each_row("event", ["prompt", "stop", "pre-compact"])
@pytest.mark.live
def test_an_event_that_is_none_stops_nothing(event: str, given: bytes) -> None:
    ended = run("http://127.0.0.1:9", event, given)
    assert ended.stdout == b""
    assert len(ended.stderr.splitlines()) <= 1


@pytest.mark.live
def test_a_service_that_is_away_or_slow_stops_nothing_for_long(server: Loopback, folder: Path) -> None:
    assert run("http://127.0.0.1:9", "prompt", prompted(folder)).stdout == b""
    held = threading.Event()

    def never(_seen: Seen) -> Response:
        held.wait(60)
        return recalled()

    server.answer = never
    ended = run(server, "prompt", prompted(folder), AFTERTURN_HOOK_SECONDS="2")
    held.set()
    assert ended.stdout == b""
    assert MARK.encode() not in ended.stderr


def entry(kind: str, content: Any, named: str = "", **more: Any) -> str:
    return json.dumps({"type": kind, "uuid": named, "message": {"role": kind, "content": content}, **more})


TRANSCRIPT = (EXAMPLES / "claude-code.transcript.jsonl").read_text().splitlines()


def stopped(folder: Path, lines: list[str]) -> dict[str, Any]:
    (folder / "t.jsonl").write_text("\n".join(lines) + "\n")
    return {**prompted(folder), "hook_event_name": "Stop", "stop_hook_active": False}


@pytest.mark.parametrize("lines", [[], TRANSCRIPT[:2], TRANSCRIPT[:5], ["{}", "7", "[]"], [entry("assistant", "x")]])
@pytest.mark.live
def test_a_transcript_without_a_whole_turn_keeps_nothing(server: Loopback, folder: Path, lines: list[str]) -> None:
    ended = run(server, "stop", stopped(folder, lines))
    assert (ended.stdout, ended.stderr, server.seen) == (b"", b"", [])


def test_the_program_tells_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out.strip() == version("afterturn-client")


@pytest.mark.parametrize("path", ["/nowhere/t.jsonl", "/", "a\0b", "~nobody-here/t.jsonl"])
@pytest.mark.parametrize("event", ["stop", "pre-compact"])
@pytest.mark.live
def test_a_transcript_that_is_not_there_is_told(server: Loopback, folder: Path, event: str, path: str) -> None:
    ended = run(server, event, {**prompted(folder), "transcript_path": path})
    assert ended.stderr.startswith(b"afterturn-client: the transcript that the event names cannot be read")
    assert (ended.stdout, server.seen) == (b"", [])


def test_a_transcript_in_the_home_folder_is_found(server: Loopback, folder: Path) -> None:
    server.answer = answer
    told = stopped(folder, [entry("user", "first", "p1"), entry("assistant", "one")])
    run(server, "stop", {**told, "transcript_path": "~/t.jsonl"}, HOME=str(folder))
    assert [seen.json["turn_id"] for seen in server.seen] == ["p1"]


def test_only_the_end_of_a_long_transcript_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    noise = entry("user", [{"type": "tool_result", "content": "x" * 100_000}])
    path.write_text("\n".join([*[noise] * (LONGEST_TAIL // len(noise) + 9), *TRANSCRIPT]))
    assert [turn.name for turn in read_transcript("claude-code", path, prompts=2).turns] == ["u1", "u3"]


@pytest.mark.law("L8")
def test_a_frame_that_is_split_over_the_parts_of_a_prompt_is_left_out(tmp_path: Path) -> None:
    shown = frame([{"text": "The roses need water on Fridays"}]) or ""
    half = len(shown) // 2
    texts = ["Look:", shown[:half], f"{shown[half:]} when do roses need water?"]
    asked = entry("user", [{"type": "text", "text": text} for text in texts], "u1")
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join([asked, entry("assistant", "On Fridays.")]))
    assert [(turn.asked, turn.answer) for turn in read_transcript("claude-code", path).turns] == [
        ("Look:\n when do roses need water?", "On Fridays.")
    ]
