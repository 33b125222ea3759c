"""The entry point: Ctrl-C ends the process cleanly, even while a command is still being imported."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

#: The exit status of what was interrupted, as shells have it.
INTERRUPTED = 130


def main() -> None:
    """Run the command line; exits 0 on success, 1 on failure, 2 for wrong usage or a missing stack."""
    with _exit_on_interrupt():
        from deploy.cli import app  # noqa: PLC0415 - half a second's import, in which Ctrl-C counts, too
        from deploy.components.process_setup import forbid_core_dumps  # noqa: PLC0415

        forbid_core_dumps()
        command = app.build_requested_cli(sys.argv[1:])
    with suppress(KeyboardInterrupt):  # before the command has it for its own
        command()
    sys.exit(INTERRUPTED)


@contextmanager
def _exit_on_interrupt() -> Iterator[None]:
    """Have Ctrl-C end the process while commands are imported; from then on it is the command's.

    Nothing was begun that is to be cleaned up, and an exception that is raised amid imports may be swallowed there.
    A polite end, or a terminal that goes away, is as Ctrl-C is; `up` and `nohup` know better.
    """
    later: dict[int, Callable[[int, FrameType | None], Any]] = {
        number: _handle_signal
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) == signal.SIG_DFL
    }
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        later[signal.SIGINT] = signal.default_int_handler
    for number in later:
        signal.signal(number, lambda *_: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        for number, handler in later.items():
            signal.signal(number, handler)


def _handle_signal(_number: int, _frame: FrameType | None) -> None:
    """Interrupt what runs, as Ctrl-C would. A job in a shell's background ignores that one, and so does its asyncio."""
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.raise_signal(signal.SIGINT)
        return
    import asyncio  # noqa: PLC0415 - nothing is loaded before Ctrl-C counts

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise KeyboardInterrupt from None
    # Between two steps, not amid one, where a library may swallow it.
    loop.call_soon_threadsafe(_raise_interrupt)


def _raise_interrupt() -> None:
    raise KeyboardInterrupt
