"""The entry point of `afterturn`: Ctrl-C ends the process cleanly, even while a command is still being imported."""

import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

#: The exit status of an interrupted process, as in shells.
INTERRUPTED = 130
#: A write that fails so, for example on a full disk, is told in one line.
UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def main() -> None:
    """Run the command line; exit 0 on success, 1 on failure, 2 for wrong usage or a missing stack."""
    _open_closed_streams()
    _escape_unencodable_output()
    with _exit_on_interrupt():
        from deploy.cli import app  # noqa: PLC0415 - half a second's import, in which Ctrl-C counts, too
        from deploy.components.process_setup import forbid_core_dumps  # noqa: PLC0415

        forbid_core_dumps()
        command = app.build_requested_cli(sys.argv[1:])
    try:
        with suppress(KeyboardInterrupt), _exit_on_unwritable_output():  # Ctrl-C before the command handles it
            command()
    finally:
        _exit_at_once_on_signals()
    sys.exit(INTERRUPTED)


def _exit_at_once_on_signals() -> None:
    """Let another Ctrl-C end what the interpreter still waits for (threads, say), without a traceback."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: os._exit(INTERRUPTED))


def _open_closed_streams() -> None:
    """Open the null device for each standard stream that is closed (`>&-`): no file or socket takes its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - for the whole process


def _escape_unencodable_output() -> None:
    """Write a character that the terminal's encoding lacks (Latin-1, say) as an escape, as standard error does."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


@contextmanager
def _exit_on_unwritable_output() -> Iterator[None]:
    """Exit 1 with a message where a write fails, as to standard output on a full disk; a closed pipe is typer's."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        what = error.filename or "the output, or a file,"
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what the interpreter flushes at its end
        print(f"afterturn: {what} cannot be written: {error.strerror}", file=sys.stderr)
        sys.exit(1)


@contextmanager
def _exit_on_interrupt() -> Iterator[None]:
    """Make Ctrl-C end the process at once during the block, in which commands are imported.

    Nothing needs to be cleaned up yet, and an exception raised during imports may be swallowed. Afterwards SIGTERM and
    SIGHUP act like Ctrl-C, unless they are ignored (`nohup`) or the command handles them itself (`up`).
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
    """Interrupt the running command as Ctrl-C would, also when SIGINT is ignored, as in background jobs of a shell."""
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.raise_signal(signal.SIGINT)
        return
    import asyncio  # noqa: PLC0415 - nothing is loaded before Ctrl-C counts

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise KeyboardInterrupt from None
    # Raised between two callbacks of the loop, because a library may swallow it within one.
    loop.call_soon_threadsafe(_raise_interrupt)


def _raise_interrupt() -> None:
    raise KeyboardInterrupt
