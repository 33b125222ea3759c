"""Runs work on long texts off the event loop, so that other requests do not wait for one long text.

A few threads serve the whole process: more would only compete with each other and the loop for the interpreter lock.
Work that consists of steps gives up its thread after a few of them, so that short texts do not wait for long ones.
The lock knows no priorities. So work on long texts calls `give_way` now and then, which waits until the loop has done
what is due: beside a busy loop it takes a small part of the interpreter, beside an idle one nearly all.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

#: Work that yields between its steps, and returns its result.
Steps = Generator[None, None, R]

#: Characters from which work on a text may take more than 20 ms.
LONG_CHARACTERS = 20_000
#: How long steps run in a thread at a time, in seconds.
SLICE_S = 0.02
#: How long a thread works between two waits for the loop, and how long it waits for a loop that has ended, in seconds.
TURN_S, PATIENCE_S = 0.002, 1.0
#: Characters that are worked on in one call of a library, during which no other thread runs.
PIECE = 16_384

_threads = ThreadPoolExecutor(2, thread_name_prefix="long-texts")
_of_thread = threading.local()


class _Place:
    """The place of a thread behind its loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._until = time.perf_counter() + TURN_S

    def give_way(self) -> None:
        """Wait until the loop has done what is due, if the thread's turn is over."""
        if time.perf_counter() < self._until:
            return
        done = threading.Event()
        self._loop.call_soon_threadsafe(done.set)
        done.wait(PATIENCE_S)
        self._until = time.perf_counter() + TURN_S


def give_way() -> None:
    """Let the event loop go first, in one of its threads for long texts; elsewhere do nothing."""
    place: _Place | None = getattr(_of_thread, "place", None)
    if place is not None:
        place.give_way()


def iterate_giving_way(found: Iterable[R]) -> Iterator[R]:
    """Yield each, and let the event loop go first now and then."""
    for nth, one in enumerate(found):
        if not nth % 64:
            give_way()
        yield one


def cut_at_spaces(text: str) -> Iterator[str]:
    """Yield a text in pieces of about PIECE characters that end before a space; one without spaces is one piece.

    The event loop goes first between two of them.
    """
    begin = 0
    while begin + PIECE < len(text) and (end := text.find(" ", begin + PIECE)) >= 0:
        yield text[begin:end]
        give_way()
        begin = end
    yield text[begin:]


async def run_off_loop(characters: int, work: Callable[P, R], *args: P.args, **named: P.kwargs) -> R:
    """Return the work's result; work on few characters runs at once, the rest in a thread."""
    if characters < LONG_CHARACTERS:
        return work(*args, **named)
    return await _run_in_thread(partial(work, *args, **named))


async def run_steps_off_loop(characters: int, steps: Steps[R]) -> R:
    """Return the result of the steps; on few characters they run at once, else in a thread, in turns with others."""
    if characters < LONG_CHARACTERS:
        return run_steps(steps)
    result = list[R]()
    while not result:
        await _run_in_thread(partial(_take_steps, steps, result))
    return result[0]


def run_steps(steps: Steps[R]) -> R:
    """Run all steps and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result


async def _run_in_thread(work: Callable[[], R]) -> R:
    loop = asyncio.get_running_loop()

    def run() -> R:
        _of_thread.place = _Place(loop)
        try:
            return work()
        finally:
            _of_thread.place = None

    return await loop.run_in_executor(_threads, run)


def _take_steps(steps: Steps[R], result: list[R]) -> None:
    """Run steps for SLICE_S seconds; append the result to the list after the last one."""
    until = time.perf_counter() + SLICE_S
    try:
        while time.perf_counter() < until:
            next(steps)
            give_way()
    except StopIteration as end:
        result.append(end.value)
