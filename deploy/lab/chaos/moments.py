"""Polls until another process has reached a state."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

POLL_INTERVAL_S = 0.02


async def wait_until(
    holds: Callable[[], bool | Awaitable[bool]], seconds: float, every_s: float = POLL_INTERVAL_S
) -> bool:
    """Wait until a condition holds, at most `seconds`; return whether it does."""
    until = time.monotonic() + seconds
    while True:
        held = holds()
        if inspect.isawaitable(held):
            held = await held
        if held or time.monotonic() > until:
            return bool(held)
        await asyncio.sleep(every_s)
