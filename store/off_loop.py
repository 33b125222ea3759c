"""Work on long texts, off the event loop: other requests do not wait for one long text.

Few threads do it for the whole process: more would only take the interpreter from each other and from the loop. Work
that is made of steps gives its thread up every few of them, so that short texts do not wait for long ones.
"""

import asyncio
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

#: Work that yields between its steps, and returns its result.
Steps = Generator[None, None, R]

#: Characters from which work on a text may take more than 20 ms.
LONG_CHARACTERS = 20_000
#: How long steps hold a thread at a time, in seconds.
SLICE_S = 0.02

_threads = ThreadPoolExecutor(2, thread_name_prefix="long-texts")


async def off_loop(characters: int, work: Callable[P, R], *args: P.args, **named: P.kwargs) -> R:
    """Return what the work returns: done at once where it is about few characters, else in a thread."""
    if characters < LONG_CHARACTERS:
        return work(*args, **named)
    return await asyncio.get_running_loop().run_in_executor(_threads, partial(work, *args, **named))


async def in_steps(characters: int, steps: Steps[R]) -> R:
    """Return what the steps return: taken at once where they are about few characters, else in turns with others."""
    if characters < LONG_CHARACTERS:
        return all_at_once(steps)
    loop, result = asyncio.get_running_loop(), list[R]()
    while not result:
        await loop.run_in_executor(_threads, _take_steps, steps, result)
    return result[0]


def all_at_once(steps: Steps[R]) -> R:
    """Return what the steps return."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result


def _take_steps(steps: Steps[R], result: list[R]) -> None:
    """Take steps for SLICE_S; put the result into the list when there are no more."""
    until = time.perf_counter() + SLICE_S
    try:
        while time.perf_counter() < until:
            next(steps)
            # WHY: the loop gets the interpreter at once, and not when it has waited for it for 5 ms.
            time.sleep(0)
    except StopIteration as end:
        result.append(end.value)
