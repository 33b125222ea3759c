"""`afterturn-client hook claude-code`: the exact shapes of its input and output, and that it never stops the agent."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from afterturn_client.claude_hooks import LONGEST_CONTEXT, LONGEST_TAIL, read_last_turn
from starlette.responses import JSONResponse, Response

from tests.client.loopback import Loopback, Seen

KEY = "at_zq55key"
MARK = "zq55prompt"
FRESH = {"position": 1, "embedded": 1, "extracted": 1, "projected": 1, "pending": 0, "waited_ms": 0, "met": True}


def result(text: str) -> dict[str, Any]:
    return {
        "unit_id": "0b7c1f5e-52a7-5a3e-8d51-3f6a1c9b7e20", "kind": "experience", "text": text, "score": 1.0,
        "session_id": "old", "turn_id": "1", "role": "user", "name": None,
        "occurred_at": "2026-03-02T09:30:00+00:00", "arms": ["dense"],
    }  # fmt: skip


def recalled(*texts: str) -> Response:
    frame = {"role": "user", "content": f"<memory_reference>\n{json.dumps(texts)}\n</memory_reference>"}
    results = [result(text) for text in texts]
    return JSONResponse({"results": results, "reference": frame if texts else None, "freshness": FRESH, "took_ms": 1.0})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inner = tmp_path / "garden"
    (inner / ".git").mkdir(parents=True)
    return inner


def run(server: Loopback | str, event: str, given: Any, **more: str) -> "subprocess.CompletedProcess[bytes]":
    url = server if isinstance(server, str) else server.url
    return subprocess.run(
        [sys.executable, "-m", "afterturn_client.command", "hook", "claude-code", event, "--url", url],
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


def test_what_memory_holds_stands_beside_the_prompt(server: Loopback, folder: Path) -> None:
    server.answer = lambda _seen: recalled("The roses need water on Fridays")
    ended = run(server, "prompt", prompted(folder))
    told = json.loads(ended.stdout)
    frame = '<memory_reference>\n["The roses need water on Fridays"]\n</memory_reference>'
    assert told == {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": frame}}
    [seen] = server.seen
    assert (seen.path, seen.headers["authorization"]) == ("/api/v1/recall", f"Bearer {KEY}")
    asked = seen.json
    assert (asked["bank"], asked["session_id"], asked["exclude_session"]) == ("garden", "5f2d9a10", True)
    assert ended.stderr == b""


def test_much_is_cut_to_what_the_agent_takes(server: Loopback, folder: Path) -> None:
    server.answer = lambda _seen: recalled(*["long " * 1000] * 8)
    told = json.loads(run(server, "prompt", prompted(folder)).stdout)["hookSpecificOutput"]["additionalContext"]
    assert 8_000 < len(told) <= LONGEST_CONTEXT
    assert "<memory_reference>" not in told


@pytest.mark.parametrize("status", [200, 401, 404, 429, 500, 503])
def test_without_results_or_with_a_refusal_nothing_is_written(server: Loopback, folder: Path, status: int) -> None:
    error = {"error": {"code": "X", "message": MARK, "retryable": True, "details": {}}, "request_id": "0" * 32}
    server.answer = lambda _seen: recalled() if status == 200 else JSONResponse(error, status)
    ended = run(server, "prompt", prompted(folder))
    assert ended.stdout == b""
    assert MARK.encode() not in ended.stderr


@pytest.mark.parametrize("given", [b"", b"{", b"[]", b"{}", b"\xff", b'{"prompt": 7}', b'{"prompt": "x"}'])
@pytest.mark.parametrize("event", ["prompt", "stop"])
def test_an_event_that_is_none_stops_nothing(event: str, given: bytes) -> None:
    ended = run("http://127.0.0.1:9", event, given)
    assert ended.stdout == b""
    assert len(ended.stderr.splitlines()) <= 1


def test_a_service_that_is_away_or_slow_stops_nothing_for_long(server: Loopback, folder: Path) -> None:
    assert run("http://127.0.0.1:9", "prompt", prompted(folder)).stdout == b""
    held = threading.Event()

    def never(_seen: Seen) -> Response:
        held.wait(60)
        return recalled()

    server.answer = never
    begun = time.monotonic()
    ended = run(server, "prompt", prompted(folder))
    held.set()
    assert ended.stdout == b""
    assert time.monotonic() - begun < 30  # the deadline is two seconds; a busy machine starts programs slowly
    assert MARK.encode() not in ended.stderr


def entry(kind: str, content: Any, named: str = "", **more: Any) -> str:
    return json.dumps({"type": kind, "uuid": named, "message": {"role": kind, "content": content}, **more})


TRANSCRIPT = [
    '{"type":"summary","summary":"Garden"}',
    entry("user", "first question", "u1"),
    entry("assistant", [{"type": "text", "text": "first answer"}], "a1"),
    entry("user", "caveat", "u2", isMeta=True),
    entry("user", [{"type": "text", "text": f"{MARK} second question"}], "u3"),
    entry("assistant", [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Let me look."}], "a2"),
    entry("assistant", [{"type": "tool_use", "id": "t", "name": "Read", "input": {}}], "a3"),
    entry("user", [{"type": "tool_result", "tool_use_id": "t", "content": "secret file"}], "u4"),
    entry("assistant", [{"type": "text", "text": "of a helper"}], "a4", isSidechain=True),
    "not JSON",
    entry("assistant", [{"type": "text", "text": "On Fridays."}], "a5"),
]


def stopped(folder: Path, lines: list[str]) -> dict[str, Any]:
    (folder / "t.jsonl").write_text("\n".join(lines) + "\n")
    return {**prompted(folder), "hook_event_name": "Stop", "stop_hook_active": False}


def test_the_turn_that_ended_is_kept_under_the_name_of_its_prompt(server: Loopback, folder: Path) -> None:
    server.answer = lambda _seen: JSONResponse({"ok": True, "position": 1, "duplicate": False}, 201)
    ended = run(server, "stop", stopped(folder, TRANSCRIPT))
    assert (ended.stdout, ended.stderr) == (b"", b"")
    [seen] = server.seen
    assert seen.path == "/api/v1/turns"
    assert seen.json == {
        "bank": "garden",
        "session_id": "5f2d9a10",
        "turn_id": "u3",
        "messages": [
            {"role": "user", "content": f"{MARK} second question"},
            {"role": "assistant", "content": "Let me look.\n\nOn Fridays."},
        ],
    }


@pytest.mark.parametrize("lines", [[], TRANSCRIPT[:2], TRANSCRIPT[:5], ["{}", "7", "[]"], [entry("assistant", "x")]])
def test_a_transcript_without_a_whole_turn_keeps_nothing(server: Loopback, folder: Path, lines: list[str]) -> None:
    ended = run(server, "stop", stopped(folder, lines))
    assert (ended.stdout, ended.stderr, server.seen) == (b"", b"", [])


def test_only_the_end_of_a_long_transcript_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    noise = entry("user", [{"type": "tool_result", "content": "x" * 100_000}])
    path.write_text("\n".join([*[noise] * (LONGEST_TAIL // len(noise) + 9), *TRANSCRIPT]))
    turn = read_last_turn(path)
    assert turn is not None
    assert turn.name == "u3"
