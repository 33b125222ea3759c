"""Runs a private stack for a command: a real `afterturn up` in a temporary folder, removed when the command ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from deploy.local.child import wrap_command
from deploy.local.private_folder import DATA, open_private_folder
from deploy.local.stack import Stack, find_stack

#: Time-out of the whole start, in seconds; the servers have shorter ones of their own, with better messages.
START_SECONDS = 600
STOP_SECONDS = 40
POLL_SECONDS = 0.1


class PrivateStackError(Exception):
    """The stack did not start or did not stop; the text ends with its last output."""


@contextmanager
def run_private_stack(
    workers: int | None = None, *, name: str, gateway: str = "self", environment: Mapping[str, str] | None = None
) -> Iterator[Stack]:
    """Start `afterturn up` on free ports, yield the running stack, and remove it afterwards.

    `workers` None: as many as `up` starts by default. `name` is the command's, for the temporary folder; `environment`
    is added to ours. When the block raises, Ctrl-C included, the stack is killed instead of stopped. Raises
    PrivateStackError.
    """
    with open_private_folder(name) as folder:
        data, said = folder / DATA, folder / "said"
        options = ["--data", str(data), "--port", "0", "--gateway", gateway]
        options += ["--workers", str(workers)] if workers else []
        with said.open("wb") as output:
            process = subprocess.Popen(
                wrap_command([sys.executable, "-P", "-m", "deploy.cli", "up", *options], None, signal.SIGTERM),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )
        with process:
            try:
                yield _wait_until_ready(process, data, said)
            except BaseException:
                process.kill()
                raise
            _stop_stack(process, said)


def _wait_until_ready(process: "subprocess.Popen[bytes]", data: Path, said: Path) -> Stack:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if b"\nREADY " in b"\n" + said.read_bytes():
            return find_stack(data)
        if process.poll() is not None:
            break
        time.sleep(POLL_SECONDS)
    raise PrivateStackError(f"the stack did not start; it said:\n{_read_last_output(said)}")


def _stop_stack(process: "subprocess.Popen[bytes]", said: Path) -> None:
    process.terminate()
    try:
        status = process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise PrivateStackError(f"the stack did not stop; it said:\n{_read_last_output(said)}") from None
    if status:
        raise PrivateStackError(f"the stack stopped with status {status}; it said:\n{_read_last_output(said)}")


def _read_last_output(said: Path) -> str:
    return said.read_text(encoding="utf-8", errors="replace")[-2000:]
