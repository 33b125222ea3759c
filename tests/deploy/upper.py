"""Runs `afterturn up` as a process of its own, the way a person does."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from deploy.local import survivors
from deploy.local.cluster import find_cluster
from deploy.local.stack import Stack, find_stack
from tests.patience import PATIENCE_S, wait_until

STAND_IN = Path(__file__).with_name("stand_in_up.py")
READY_SECONDS = 120.0


def remove(data: Path) -> None:
    """Delete a data folder nobody works in, and the database that belongs to it (root's lies elsewhere)."""
    if (data / "pg").exists():
        find_cluster(data).remove()
    shutil.rmtree(data, ignore_errors=True)


class Up:
    """One `up` on one data folder; leaving the block ends it and removes its database."""

    def __init__(self, data: Path, *options: str, prefix: Sequence[str] = (), **environment: str) -> None:
        self.data = data
        self.out, self.err = data.with_suffix(".out"), data.with_suffix(".err")
        python = prefix or (sys.executable,)
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [*python, "-P", str(STAND_IN), "--data", str(data), *options],
                stdout=out,
                stderr=err,
                env=os.environ | environment,
            )

    def ready(self) -> dict[str, Any]:
        """Wait for the READY line and return its object."""
        self.wait(self._is_ready, "it is ready", READY_SECONDS)
        return dict(json.loads(self._printed()[0].removeprefix("READY ")))

    def _is_ready(self) -> bool:
        """Whether the READY line stands there, and the line after it."""
        assert self.process.poll() is None, self.said
        lines = self._printed()
        return len(lines) > 1 and lines[0].startswith("READY ")

    def _printed(self) -> list[str]:
        return self.out.read_text().splitlines()

    @property
    def said(self) -> str:
        """What stands on standard error so far."""
        return self.err.read_text()

    @property
    def stack(self) -> Stack:
        return find_stack(self.data)

    def pid(self, name: str) -> int:
        return next(process.pid for process in self.stack.processes if process.name == name)

    def kill_child(self, name: str) -> int:
        """Kill a child and return the process id of the one that took its place."""
        before = self.pid(name)
        os.kill(before, signal.SIGKILL)
        another = f"{name} is started again"
        self.wait(lambda: any(one.name == name and one.pid != before for one in self.stack.processes), another)
        return self.pid(name)

    def wait(self, holds: Callable[[], bool], what: str, seconds: float = PATIENCE_S) -> None:
        """Return when `holds` does; `what` names it in the error when it does not come."""
        try:
            wait_until(holds, what, seconds)
        except AssertionError as error:
            error.add_note(self.said)
            raise

    def everyone(self) -> list[psutil.Process]:
        """Every process that belongs to this data folder."""
        data = self.data.resolve()
        servers = [*survivors.find_servers((data / "pg").resolve()), *survivors.find_servers(data / "valkey")]
        return [*survivors.find_marked_processes(data), *servers]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop it and return its exit status."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self.process:
            try:
                if self.process.poll() is None:
                    self.stop()
            finally:
                self.process.kill()
