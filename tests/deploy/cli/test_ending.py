"""A polite end of a command, or of its terminal, is an interrupt: what the command began is cleaned up."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE

import pytest

from deploy.cli import app, main
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.usefixtures("usual_signals")


def ended_by(monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> tuple[object, list[str]]:
    """Run a command that is sent a signal; return its exit status and what it cleaned up."""
    cleaned = []

    def command() -> None:
        try:
            signal.raise_signal(number)
            cleaned.append("went on")
        finally:
            cleaned.append("folder")

    monkeypatch.setattr(sys, "argv", ["afterturn", "demo"])
    monkeypatch.setattr(app, "build_cli", lambda *_names: command)
    with pytest.raises(SystemExit) as caught:
        main()
    return caught.value.code, cleaned


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_command_that_is_told_to_end_cleans_up(monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    assert ended_by(monkeypatch, number) == (130, ["folder"])


def test_a_command_that_may_not_be_interrupted_can_still_be_told_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert ended_by(monkeypatch, signal.SIGTERM) == (130, ["folder"])


def test_an_end_is_not_lost_amid_the_work_of_a_command_that_may_not_be_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = []

    async def work() -> None:
        with suppress(KeyboardInterrupt):  # as a callback of a library does
            signal.raise_signal(signal.SIGTERM)
        try:
            for _ in range(3):
                await asyncio.sleep(0)
            said.append("went on")
        finally:
            said.append("cleaned up")

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    monkeypatch.setattr(sys, "argv", ["afterturn", "demo"])
    monkeypatch.setattr(app, "build_cli", lambda *_names: lambda: asyncio.run(work()))
    with pytest.raises(SystemExit) as caught:
        main()
    assert (caught.value.code, said) == (130, ["cleaned up"])


def test_a_command_that_outlives_its_terminal_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    monkeypatch.setattr(sys, "argv", ["afterturn", "demo"])
    monkeypatch.setattr(app, "build_cli", lambda *_names: lambda: signal.raise_signal(signal.SIGHUP))
    with pytest.raises(SystemExit):
        main()
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


SWALLOWS = """
import signal, sys
from deploy.cli import app, main

def build(*_names):
    try:
        signal.raise_signal(signal.{name})
    except KeyboardInterrupt:
        pass
    return lambda: print("went on")

signal.signal(signal.SIGINT, signal.{before})
app.build_cli, sys.argv = build, ["afterturn", "demo"]
main()
"""


@pytest.mark.parametrize(
    "name,before", [("SIGINT", "default_int_handler"), ("SIGTERM", "default_int_handler"), ("SIGTERM", "SIG_IGN")]
)
def test_no_import_swallows_an_interrupt(name: str, before: str) -> None:
    """As building a model of pydantic does, in whose core an exception of a signal's handler is printed and lost."""
    script = SWALLOWS.format(name=name, before=before)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


PRINTS = """
import sys
from deploy.cli import app, main

app.build_cli, sys.argv = lambda *_names: lambda: print("{}"), ["afterturn", "status"]
main()
"""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is always full")
def test_output_that_finds_no_space_is_one_line_of_error_and_status_1() -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run([sys.executable, "-c", PRINTS], stdout=full, stderr=PIPE, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == "afterturn: the output, or a file, cannot be written: No space left on device\n"


def test_a_file_that_finds_no_space_is_named() -> None:
    script = PRINTS.replace('print("{}")', "os.mkdir('there')").replace("import sys", "import os, sys")
    full = "def full(path): raise OSError(28, 'No space left on device', path)\nos.mkdir = full\nmain()"
    ended = subprocess.run(
        [sys.executable, "-c", script.replace("\nmain()", f"\n{full}")], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (1, "afterturn: there cannot be written: No space left on device\n")


@pytest.mark.parametrize("closed", [1, 2])
def test_a_command_whose_output_is_closed_does_its_work(tmp_path: Path, closed: int) -> None:
    done = tmp_path / "done"
    work = f"import pathlib, sys; print(sys.stdout.isatty(), file=sys.stderr); pathlib.Path({str(done)!r}).touch()"
    script = PRINTS.replace('print("{}")', f"exec({work!r})")
    shell = f'exec "$0" -c "$1" {closed}>&-'
    ended = subprocess.run(["sh", "-c", shell, sys.executable, script], capture_output=True, text=True, check=False)
    assert (ended.returncode, done.exists()) == (130, True), ended.stderr


def test_a_character_that_the_terminal_cannot_show_is_written_as_an_escape() -> None:
    script = PRINTS.replace("{}", "K\N{LATIN SMALL LETTER O WITH DIAERESIS}ln \N{DOG FACE}")
    told = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, env=told, check=False)
    assert ended.stdout == b"K\xf6ln \\U0001f436\n", ended.stderr


ENDS_SLOWLY = """
import os, signal, sys, threading, time
from deploy.cli import app, main

def interrupt_again():
    threading.main_thread().join()  # the interpreter ends, and waits for this thread
    for _ in range(60):  # one that comes in the instant before the wait begins is seen with the next
        os.kill(os.getpid(), signal.{name})
        time.sleep(1)

def command():
    threading.Thread(target=interrupt_again).start()
    raise KeyboardInterrupt

app.build_cli, sys.argv = lambda *_names: command, ["afterturn", "status"]
main()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_second_interrupt_ends_what_the_interpreter_waits_for_without_a_traceback(name: str) -> None:
    command = [sys.executable, "-c", ENDS_SLOWLY.format(name=name)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
