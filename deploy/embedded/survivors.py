"""Processes that outlived the `up` that started them: found by what they are, ended in order.

A server is known by its working folder (PostgreSQL and Valkey both move into their data folder, and
both overwrite the memory that shows their environment); everything else by a mark in its environment.
"""

import os
import signal
from collections.abc import Iterable
from pathlib import Path

import psutil

#: Environment variable that names the data folder a process was started for.
MARK = "_AFTERTURN_STACK"  # not AFTERTURN_: it is no setting
SERVERS = frozenset({"postgres", "valkey-server"})
STOP_SECONDS = 15.0
LEAVE_SECONDS = 5.0


def servers_in(folder: Path) -> list[psutil.Process]:
    """Return the database server processes that live in a data folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.name() in SERVERS and Path(process.cwd()) == folder:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def marked(data: Path) -> list[psutil.Process]:
    """Return every other process that was started for a data folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(MARK) == str(data):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def end(
    processes: Iterable[psutil.Process], leaders: Iterable[int], stop_signal: signal.Signals
) -> list[psutil.Process]:
    """Ask the leaders to stop, wait, kill what is left; returns what was there."""
    everyone = list(processes)
    asked = [process for process in everyone if process.pid in set(leaders)]
    for process in asked:
        _signal(process, stop_signal)
    _, stubborn = psutil.wait_procs(everyone, timeout=STOP_SECONDS if asked else LEAVE_SECONDS)
    for process in stubborn:
        _signal(process, signal.SIGKILL)
    psutil.wait_procs(stubborn, timeout=LEAVE_SECONDS)
    return everyone


def _signal(process: psutil.Process, stop_signal: signal.Signals) -> None:
    try:
        process.send_signal(stop_signal)
    except psutil.NoSuchProcess:
        return
