"""Describes a child process (command, readiness check, way to stop), and starts and stops one."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from deploy.local.errors import StartFailed

LAUNCHER = Path(__file__).with_name("launch.py")
POLL_SECONDS = 0.02
STANDARD_ERROR = 2
TAIL_BYTES = 2000
#: Folder of the processes' logs, within a data folder.
LOGS = "logs"
#: A log above this size is rotated; one old generation is kept.
LOG_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Account:
    """The system account a process runs as."""

    uid: int
    gid: int


def build_account_arguments(account: Account | None) -> dict[str, Any]:
    """Return subprocess arguments that run a program as this account (None: as the current user)."""
    if account is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """The description of a supervised process.

    `ready` is called with the process id until it returns True; `prepare` runs before every start; both
    may block. Stopping sends `stop_signals` one after the other and waits `stop_seconds` after each,
    then sends SIGKILL. `orphan_signal` is the signal that the kernel sends when our own process dies. Output
    goes to `log`, or to our standard error, never to our standard output.
    """

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)
    ready: Callable[[int], bool] = lambda _pid: True
    prepare: Callable[[], None] = lambda: None
    ready_seconds: float = 60.0
    stop_signals: tuple[signal.Signals, ...] = (signal.SIGTERM,)
    stop_seconds: float = 15.0
    orphan_signal: signal.Signals = signal.SIGTERM
    account: Account | None = None
    folder: Path | None = None
    log: Path | None = None
    #: Restarted however often it dies: a server that fails on a full disk must come back once there is space.
    for_ever: bool = False

    def command(self) -> list[str]:
        """Return the argument vector that starts this child bound to the life of our own process."""
        return wrap_command(self.argv, self.account, self.orphan_signal)

    def popen_arguments(self, output: IO[bytes] | None) -> dict[str, Any]:
        """Return the keyword arguments of Popen: a session of its own, so that Ctrl-C reaches only us."""
        sink: IO[bytes] | int = STANDARD_ERROR if output is None else output
        return {
            "env": dict(self.environment),
            "cwd": self.folder,
            "stdin": subprocess.DEVNULL,
            "stdout": sink,
            "stderr": sink,
            "start_new_session": True,
        }

    def open_log(self) -> IO[bytes] | None:
        """Open the log for appending (0600)."""
        if self.log is None:
            return None
        self.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.trim_log()
        return os.fdopen(os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")

    def trim_log(self) -> None:
        """Rotate a large log; safe while the child writes, because it appends."""
        if self.log is not None and self.log.exists() and self.log.stat().st_size > LOG_BYTES:
            with suppress(OSError):  # there may be no space for a copy; the next call tries again
                shutil.copy2(self.log, self.log.with_suffix(".log.1"))
                os.truncate(self.log, 0)

    def last_words(self) -> str:
        """Return the end of the log, for an error message."""
        if self.log is None or not self.log.exists():
            return ""
        return self.log.read_bytes()[-TAIL_BYTES:].decode(errors="replace").strip()


def wrap_command(argv: Sequence[str], account: Account | None, orphan_signal: signal.Signals) -> list[str]:
    """Return the argument vector that runs a program as an account; it gets `orphan_signal` when our process dies."""
    who = account or Account(-1, -1)
    tie = [str(number) for number in (os.getpid(), int(orphan_signal), who.uid, who.gid)]
    program = shutil.which(argv[0]) or argv[0]
    return [sys.executable, "-I", "-S", str(LAUNCHER), *tie, program, *argv[1:]]


def start_child(child: Child) -> subprocess.Popen[bytes]:
    """Start a child without a supervisor and return its process when it is ready; raises StartFailed."""
    child.prepare()
    with_log = child.open_log()
    try:
        process = subprocess.Popen(child.command(), **child.popen_arguments(with_log))
    finally:
        if with_log is not None:
            with_log.close()
    deadline = time.monotonic() + child.ready_seconds
    while process.poll() is None and time.monotonic() < deadline:
        if child.ready(process.pid):
            return process
        time.sleep(POLL_SECONDS)
    late = process.returncode is None
    stop_child(child, process)
    raise StartFailed(describe_failed_start(child, late=late))


def describe_failed_start(child: Child, *, late: bool) -> str:
    """Return why a child did not start: it was too `late`, or ended; then where its log is, and the log's end."""
    how = f"was not ready within {child.ready_seconds:g} s" if late else "ended before it was ready"
    where = f"; its log is {child.log}" if child.log else ""
    return f"{child.name} {how}{where}\n{child.last_words()}".strip()


def stop_child(child: Child, process: subprocess.Popen[bytes]) -> int:
    """Stop a child started by `start_child`, with its process group, and return its exit status."""
    for stop_signal in child.stop_signals:
        process.send_signal(stop_signal)
        try:
            process.wait(child.stop_seconds)
            break
        except subprocess.TimeoutExpired:
            continue
    kill_process_group(process.pid)
    return process.wait()


def kill_process_group(leader: int) -> None:
    """Kill the remaining processes of the group that a child led."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
