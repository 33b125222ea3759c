"""Defers a Ctrl-C until a count that is being updated is complete."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def defer_interrupt() -> Iterator[None]:
    """Hold an interrupt until the block is over, then raise it.

    For short blocks of the main thread that leave numbers which belong together. Raises KeyboardInterrupt
    at its end, unless the block itself failed: then its error goes out instead.
    """
    held: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: held.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if held:
        raise KeyboardInterrupt
