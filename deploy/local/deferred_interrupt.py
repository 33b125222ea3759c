"""Defers a Ctrl-C until a count that is being updated is complete."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def defer_interrupt() -> Iterator[None]:
    """Defer Ctrl-C until the block ends, then raise KeyboardInterrupt.

    For short blocks of the main thread that update counts which belong together. When the block itself fails, its error
    is raised instead.
    """
    held: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: held.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if held:
        raise KeyboardInterrupt
