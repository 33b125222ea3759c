"""A child process as data, and the launcher that ties it to us."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local import Child, child
from deploy.local.child import LAUNCHER, Account, wrap_command
from deploy.local.private_files import ensure_password


def test_the_launcher_becomes_the_program_with_the_same_process_id() -> None:
    program = Child(name="sh", argv=("sh", "-c", "echo $$")).command()
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert int(process.stdout.read()) == process.pid


def test_what_the_launcher_starts_dumps_no_core() -> None:
    program = Child(name="sh", argv=("sh", "-c", "ulimit -Sc; ulimit -Hc")).command()
    assert subprocess.run(program, capture_output=True, text=True, check=True).stdout.split() == ["0", "0"]


def test_the_launcher_starts_nothing_for_a_parent_that_is_gone() -> None:
    argv = [sys.executable, "-I", "-S", str(LAUNCHER), "1", "15", "-1", "-1", "/bin/echo", "started"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "has ended" in done.stderr


if os.geteuid() == 0:

    def test_the_launcher_gives_up_the_superuser_and_its_groups_for_good() -> None:
        argv = wrap_command(("id", "-G"), Account(65534, 65534), signal.SIGTERM)
        assert subprocess.run(argv, capture_output=True, text=True, check=True, cwd="/").stdout == "65534\n"


def test_a_large_log_is_put_aside_while_the_child_goes_on_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "LOG_BYTES", 10)
    writer = Child(name="writer", argv=("true",), log=tmp_path / "writer.log")
    log = writer.open_log()
    assert log is not None
    with log:
        log.write(b"the first lines\n")
        log.flush()
        writer.trim_log()
        log.write(b"later\n")
    assert (tmp_path / "writer.log").read_text() == "later\n"
    assert (tmp_path / "writer.log.1").read_text() == "the first lines\n"


def test_a_password_is_made_once_and_differs_from_the_next(tmp_path: Path) -> None:
    first = ensure_password(tmp_path / "passwords", "one")
    assert ensure_password(tmp_path / "passwords", "one") == first
    assert ensure_password(tmp_path / "passwords", "two") != first
    assert len(first) >= 32
