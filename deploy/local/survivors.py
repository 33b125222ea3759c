"""Finds and ends processes that outlived the `up` that started them.

A server is recognised by its working folder (PostgreSQL and Valkey both change into their data folder, and both
overwrite the memory that shows their environment); every other process by a variable in its environment.
"""

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

#: Environment variable that names the data folder a process was started for.
MARK = "_AFTERTURN_STACK"  # without the prefix AFTERTURN_, because it is no setting
SERVERS = frozenset({"postgres", "valkey-server"})
STOP_SECONDS = 15.0
POLL_SECONDS = 0.02
#: Time for PostgreSQL's backends to end by themselves after their postmaster; those in a long query do not.
LEAVE_SECONDS = 1.0


def find_servers(folder: Path) -> list[psutil.Process]:
    """Return the PostgreSQL and Valkey processes whose working folder is this folder or below it."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.name() in SERVERS and Path(process.cwd()).is_relative_to(folder):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def find_marked_processes(data: Path) -> list[psutil.Process]:
    """Return the other processes that were started for a data folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(MARK) == str(data):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def end_processes(processes: Iterable[psutil.Process], leaders: Iterable[int], stop_signal: signal.Signals) -> None:
    """Send the stop signal to the leaders and wait for them; then kill the processes that do not end by themselves."""
    everyone, asked = list(processes), set(leaders)
    leading = [process for process in everyone if process.pid in asked]
    for process in leading:
        _send_signal(process, stop_signal)
    wait_for_exits(leading, STOP_SECONDS)
    kill_processes(wait_for_exits(everyone, LEAVE_SECONDS))


def kill_processes(processes: list[psutil.Process]) -> None:
    """Kill these processes, and wait until they are gone."""
    for process in processes:
        _send_signal(process, signal.SIGKILL)
    wait_for_exits(processes, STOP_SECONDS)


def is_alive(process: psutil.Process) -> bool:
    """Return whether a process is alive; a zombie is not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def is_running(pid: int, name: str) -> bool:
    """Return whether this process id belongs to a live process of this name."""
    try:
        process = psutil.Process(pid)
        return process.name() == name and is_alive(process)
    except psutil.Error:
        return False


def wait_for_exits(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Wait up to `seconds` until all processes have ended; return those that are alive."""
    deadline = time.monotonic() + seconds
    while alive := [process for process in processes if is_alive(process)]:
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_SECONDS)
    return alive


def _send_signal(process: psutil.Process, stop_signal: signal.Signals) -> None:
    try:
        process.send_signal(stop_signal)
    except psutil.NoSuchProcess:
        return
