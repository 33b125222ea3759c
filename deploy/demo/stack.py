"""The demo's own stack: a real `afterturn up` in a folder of its own, gone when the demo is."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.embedded.child import tied
from deploy.stack import Stack, find_stack

START_SECONDS = 90
STOP_SECONDS = 40
LOOK_AGAIN_SECONDS = 0.1


class DemoStackError(Exception):
    """The demo's stack did not start or did not stop; the text holds what it said last."""


@contextmanager
def running(workers: int) -> Iterator[Stack]:
    """Start `afterturn up --gateway self` on free ports, lend what it is, and leave nothing of it behind."""
    with tempfile.TemporaryDirectory(prefix="afterturn-demo-") as folder:
        data = Path(folder) / "data"
        said = Path(folder) / "said"
        options = ["--data", str(data), "--port", "0", "--workers", str(workers), "--gateway", "self"]
        with said.open("wb") as output:
            process = subprocess.Popen(
                tied([sys.executable, "-P", "-m", "deploy.cli", "up", *options], None, signal.SIGTERM),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        stack = None
        try:
            stack = _ready(process, data, said)
            yield stack
        finally:
            _stop(process, said)
            if stack is not None:
                shutil.rmtree(stack.postgres_dir.parent, ignore_errors=True)


@contextmanager
def paused_workers(stack: Stack) -> Iterator[None]:
    """Stop every worker process (SIGSTOP) while the block runs: whatever is found then, no worker has touched."""
    pids = [process.pid for process in stack.processes if process.name.startswith("worker")]
    if not pids:
        raise DemoStackError("the stack names no worker processes to pause")
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _ready(process: "subprocess.Popen[bytes]", data: Path, said: Path) -> Stack:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if b"\nREADY " in b"\n" + said.read_bytes():
            return find_stack(data)
        if process.poll() is not None:
            break
        time.sleep(LOOK_AGAIN_SECONDS)
    raise DemoStackError(f"the stack did not start; it said:\n{_last_words(said)}")


def _stop(process: "subprocess.Popen[bytes]", said: Path) -> None:
    process.terminate()
    try:
        status = process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise DemoStackError(f"the stack did not stop; it said:\n{_last_words(said)}") from None
    if status and sys.exc_info()[0] is None:
        raise DemoStackError(f"the stack stopped with status {status}; it said:\n{_last_words(said)}")


def _last_words(said: Path) -> str:
    return said.read_text(encoding="utf-8", errors="replace")[-2000:]
