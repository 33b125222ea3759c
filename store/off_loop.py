"""Runs work on long texts off the event loop, so that other requests do not wait for one long text.

A few threads serve the whole process: more would only compete with each other and the loop for the interpreter lock.
Work that consists of steps gives up its thread after a few of them, so that short texts do not wait for long ones.
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
#: How long steps run in a thread at a time, in seconds.
SLICE_S = 0.02

_threads = ThreadPoolExecutor(2, thread_name_prefix="long-texts")


async def run_off_loop(characters: int, work: Callable[P, R], *args: P.args, **named: P.kwargs) -> R:
    """Return the work's result; work on few characters runs at once, the rest in a thread."""
    if characters < LONG_CHARACTERS:
        return work(*args, **named)
    return await asyncio.get_running_loop().run_in_executor(_threads, partial(work, *args, **named))


async def run_steps_off_loop(characters: int, steps: Steps[R]) -> R:
    """Return the result of the steps; on few characters they run at once, else in a thread, in turns with others."""
    if characters < LONG_CHARACTERS:
        return run_steps(steps)
    loop, result = asyncio.get_running_loop(), list[R]()
    while not result:
        await loop.run_in_executor(_threads, _take_steps, steps, result)
    return result[0]


def run_steps(steps: Steps[R]) -> R:
    """Run all steps and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result


def _take_steps(steps: Steps[R], result: list[R]) -> None:
    """Run steps for SLICE_S seconds; append the result to the list after the last one."""
    until = time.perf_counter() + SLICE_S
    try:
        while time.perf_counter() < until:
            next(steps)
            # WHY: the loop gets the interpreter at once, and not when it has waited for it for 5 ms.
            time.sleep(0)
    except StopIteration as end:
        result.append(end.value)
