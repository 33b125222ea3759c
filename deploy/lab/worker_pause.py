"""Pauses workers, so that there are turns that no worker has processed."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from deploy.local.private_stack import PrivateStackError
from deploy.local.stack import Stack


@contextmanager
def pause_workers(stack: Stack) -> Iterator[None]:
    """Stop every worker process (SIGSTOP) while the block runs."""
    pids = [process.pid for process in stack.processes if process.name.startswith("worker")]
    if not pids:
        raise PrivateStackError("the stack names no worker processes to pause")
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
