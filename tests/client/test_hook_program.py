"""The process of a hook: exit code 0 whatever happens, valid UTF-8 on standard output, an end in time."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from afterturn_client.hook_program import DEADLINE_S, LONGEST_EVENT, read_deadline, read_event, read_process_age
from afterturn_client.reference import frame
from starlette.responses import JSONResponse, Response

from tests.client.loopback import Loopback, Seen
from tests.client.twins import ANSWER, RECALLED
from tests.growth import grows_with_its_text
from tests.patience import PATIENCE_S

TEXT = "Zoë ❤ 寿司 \U0001f600 lives in Gent"
EVENT = json.dumps({"session_id": "s", "cwd": "/", "prompt": "where does she live?"}).encode()
PROGRAM = (sys.executable, "-m", "afterturn_client.command", "hook", "claude-code", "prompt")


def recalled(_seen: Seen) -> Response:
    unit = {**RECALLED, "text": TEXT}
    reference = {"role": "user", "content": frame([{"text": TEXT}])}
    return JSONResponse({**ANSWER, "results": [unit], "reference": reference})


@pytest.fixture
def env(server: Loopback) -> dict[str, str]:
    server.answer = recalled
    return {**os.environ, "AFTERTURN_API_KEY": "at_zq55key", "AFTERTURN_URL": server.url}


@pytest.fixture
def in_time(env: dict[str, str]) -> dict[str, str]:
    """With the deadline of a hook."""
    return {name: value for name, value in env.items() if name != "AFTERTURN_HOOK_SECONDS"}


def shell(command: str, env: dict[str, str], event: bytes = EVENT) -> "subprocess.CompletedProcess[bytes]":
    program = " ".join(PROGRAM)
    started = ["bash", "-o", "pipefail", "-c", command.replace("HOOK", program)]
    return subprocess.run(started, check=False, input=event, env=env, capture_output=True, timeout=PATIENCE_S)


@pytest.mark.parametrize(
    "locale",
    [
        {"PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1252"},
        {"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii:strict"},
        {"PYTHONUTF8": "0", "PYTHONIOENCODING": "utf-16"},
        {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"},
        {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "POSIX"},
    ],
)
def test_standard_output_is_utf_8_under_every_locale(env: dict[str, str], locale: dict[str, str]) -> None:
    ended = shell("HOOK", env | locale)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert TEXT in json.loads(ended.stdout.decode("utf-8"))["hookSpecificOutput"]["additionalContext"]


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-", ">/dev/full", "| true"])
@pytest.mark.live
def test_closed_and_full_streams_end_with_zero_and_no_traceback(env: dict[str, str], closed: str) -> None:
    ended = shell(f"HOOK {closed}", env)
    assert ended.returncode == 0
    assert b"Traceback" not in ended.stderr
    assert len(ended.stderr.splitlines()) <= 1


@pytest.mark.parametrize(
    "arguments", ["hook", "hook claude-code", "hook claude-code nothing", "hook nobody prompt", "hook --wrong x y"]
)
@pytest.mark.live
def test_a_usage_error_of_a_hook_ends_with_zero(env: dict[str, str], arguments: str) -> None:
    ended = shell(f"{sys.executable} -m afterturn_client.command {arguments}", env)
    assert (ended.returncode, ended.stdout) == (0, b"")
    assert b"usage:" in ended.stderr
    assert b"Traceback" not in ended.stderr


@pytest.mark.parametrize("url", ["nonsense", "http://user:secret@127.0.0.1:9", "http://example.org:1"])
@pytest.mark.live
def test_settings_that_cannot_work_are_told_in_a_line_without_secrets(env: dict[str, str], url: str) -> None:
    ended = shell("HOOK", env | {"AFTERTURN_URL": url})
    assert (ended.returncode, ended.stdout) == (0, b"")
    [line] = ended.stderr.splitlines()
    assert b"base_url" in line
    assert b"secret" not in line


def test_an_event_is_read_although_standard_input_stays_open(env: dict[str, str]) -> None:
    with subprocess.Popen(PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        for piece in (EVENT[:20], EVENT[20:]):
            started.stdin.write(piece)
            started.stdin.flush()
        assert TEXT.encode() in started.stdout.read()
        assert started.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("coding", ["utf-8-sig", "utf-16", "utf-16-le"])
@pytest.mark.live
def test_an_event_is_read_in_each_coding_of_json(env: dict[str, str], coding: str) -> None:
    ended = shell("HOOK", env, EVENT.decode().encode(coding))
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert TEXT in ended.stdout.decode()


def test_a_long_event_is_read(env: dict[str, str]) -> None:
    event = json.dumps({"session_id": "s", "cwd": "/", "prompt": "where? " + "x y " * 1_500_000}).encode()
    ended = shell("HOOK", env, event)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert TEXT in ended.stdout.decode()


def test_the_time_to_read_an_event_grows_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(prompt: str) -> None:
        (tmp_path / "event").write_text(json.dumps({"prompt": prompt}))
        with (tmp_path / "event").open() as event:
            monkeypatch.setattr(sys, "stdin", event)
            assert read_event()["prompt"] == prompt

    assert grows_with_its_text(read, "x y ", long=LONGEST_EVENT - 65_536)


@pytest.mark.parametrize(
    "event", [b"", b"[]", b"nothing", b'{"cwd": "/", "prompt": "where?"}', b'{"session_id": null}']
)
@pytest.mark.live
def test_what_is_missing_is_told_in_a_line(env: dict[str, str], event: bytes) -> None:
    ended = shell("HOOK", env, event)
    assert (ended.returncode, ended.stdout) == (0, b"")
    [line] = ended.stderr.splitlines() or [b"holds no event"]
    assert b"holds no event" in line or b"session_id" in line


def test_a_key_from_a_file_that_is_not_there_is_told(env: dict[str, str]) -> None:
    ended = shell("HOOK", env | {"AFTERTURN_API_KEY_FILE": "/nowhere/key"})
    assert b"/nowhere/key cannot be read" in ended.stderr
    ended = shell("HOOK", env | {"AFTERTURN_API_KEY": "at_zq55key\n"})
    assert TEXT in ended.stdout.decode()


@pytest.mark.parametrize("given", [b"", EVENT[:20]])
@pytest.mark.live
def test_an_event_that_never_comes_is_not_waited_for(in_time: dict[str, str], given: bytes) -> None:
    with subprocess.Popen(PROGRAM, stdin=subprocess.PIPE, stdout=-1, stderr=-1, env=in_time) as started:
        assert started.stdin is not None
        assert started.stderr is not None
        started.stdin.write(given)
        started.stdin.flush()
        assert started.wait(PATIENCE_S) == 0
        assert started.stderr.read().startswith(b"afterturn-client: no whole event came on standard input")


def test_a_service_that_is_slow_ends_with_zero(in_time: dict[str, str], server: Loopback) -> None:
    held = threading.Event()

    def never(seen: Seen) -> Response:
        held.wait(PATIENCE_S)
        return recalled(seen)

    server.answer = never
    ended = shell("HOOK", in_time)
    held.set()
    assert (ended.returncode, ended.stdout) == (0, b"")
    assert b"took too long" in ended.stderr


def test_the_deadline_counts_from_the_start_of_the_process(tmp_path: Path, in_time: dict[str, str]) -> None:
    """Imports that hang are ended as well: nothing that takes long is imported before the deadline is set."""
    (tmp_path / "httpx.py").write_text("import time\ntime.sleep(3600)\n")
    ended = shell("HOOK", in_time | {"PYTHONPATH": str(tmp_path)})
    assert (ended.returncode, ended.stdout) == (0, b"")
    assert b"took too long" in ended.stderr
    assert read_process_age() > 0.0
    assert DEADLINE_S < 2.0


@pytest.mark.parametrize("said, seconds", [("7.5", 7.5), ("-1", 0.0), ("soon", DEADLINE_S), ("", DEADLINE_S)])
def test_the_deadline_can_be_set(monkeypatch: pytest.MonkeyPatch, said: str, seconds: float) -> None:
    monkeypatch.setenv("AFTERTURN_HOOK_SECONDS", said)
    assert read_deadline() == seconds


def test_a_broken_installation_stops_no_agent(tmp_path: Path) -> None:
    (tmp_path / "httpx.py").write_text("raise ImportError('zq55')\n")
    ended = shell("HOOK", {**os.environ, "PYTHONPATH": str(tmp_path), "AFTERTURN_API_KEY": "at_zq55key"})
    assert (ended.returncode, ended.stdout) == (0, b"")
    assert ended.stderr == b"afterturn-client: no memory this time (ImportError)\n"
