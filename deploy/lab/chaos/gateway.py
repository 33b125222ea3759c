"""Starts the gateway process of a chaos run, controls it, and reads its file."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.lab.chaos.gateway_process import AnswerMode
from deploy.local.child import wrap_command
from deploy.local.ports import LOOPBACK, find_free_port

STOP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call as the gateway recorded it before it answered."""

    operation: str
    mode: AnswerMode
    body: Any = field(repr=False)


class ProcessGone(Exception):
    """A process of the run ended unexpectedly."""


class GatewayHandle:
    """A running gateway process, and the file of its calls."""

    def __init__(self, process: "subprocess.Popen[str]", port: int, file: Path) -> None:
        self._process = process
        self._file = file
        self._lock = threading.Lock()
        self.port = port
        self.url = f"http://{LOOPBACK}:{port}"

    def order(self, mode: AnswerMode, calls: int = 0) -> None:
        """Make the gateway answer the next `calls` calls in this mode."""
        self._tell({"mode": mode, "calls": calls})

    def left(self) -> int:
        """Return how many more calls will fail."""
        return self._tell({})["left"]

    def well(self) -> int:
        """Return how many calls have succeeded so far."""
        return self._tell({})["well"]

    def recorded(self) -> Iterator[RecordedCall]:
        """Yield every recorded call in order of arrival."""
        with self._file.open(encoding="utf-8") as lines:
            for line in lines:
                call = json.loads(line)
                yield RecordedCall(str(call["path"]).rpartition("/")[2], AnswerMode(call["mode"]), call["body"])

    def _tell(self, order: Mapping[str, Any]) -> Mapping[str, int]:
        with self._lock:
            if self._process.stdin is None or self._process.poll() is not None:
                raise ProcessGone("the gateway of the run is gone")
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            return read_message(self._process)


@contextmanager
def run_gateway(folder: Path, slow_seconds: float) -> Iterator[GatewayHandle]:
    """Run a gateway that writes its file into a folder; a slow answer takes `slow_seconds`."""
    file, port = folder / "calls.jsonl", find_free_port()
    with run_module("deploy.lab.chaos.gateway_process", str(file), str(port), str(slow_seconds)) as process:
        read_message(process)
        yield GatewayHandle(process, port, file)


@contextmanager
def run_module(module: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a module that communicates in lines, and kill it afterwards."""
    process = subprocess.Popen(
        wrap_command([sys.executable, "-P", "-m", module, *arguments], None, signal.SIGTERM),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=STOP_SECONDS)


def read_message(process: "subprocess.Popen[str]") -> Mapping[str, Any]:
    """Return the next line of JSON from a process. Raises ProcessGone when it has ended."""
    line = process.stdout.readline() if process.stdout is not None else ""
    if not line:
        raise ProcessGone("a process of the run ended before it answered")
    return dict(json.loads(line))
