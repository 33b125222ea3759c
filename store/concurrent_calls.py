"""Runs calls at once, so that none of them outlives the failure of another, or the block that needs it."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

R = TypeVar("R")


async def gather_or_cancel(*calls: Coroutine[Any, Any, R]) -> list[R]:
    """Return the results of all calls, in their order.

    If one raises, or the caller is cancelled, the rest are cancelled and have ended before that error is raised as it
    is: `asyncio.gather` would leave them running, with their connections.
    """
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            if not task.cancelling():  # a second cancellation would cut its end: a rollback, the close of a connection
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


@asynccontextmanager
async def run_meanwhile(work: Coroutine[Any, Any, None], name: str) -> AsyncGenerator[asyncio.Task[None]]:
    """Run `work` in a task of this name while the block runs; yield the task, which has ended when the block is left.

    Its own error ends the work, and not the block.
    """
    task = asyncio.create_task(work, name=name)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
