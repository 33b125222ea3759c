"""Waiting for what must come: as long as the slowest machine may need, and then an error that says what it was."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

#: How long a test waits for something that must happen, in seconds; a busy machine needs a good part of it.
PATIENCE_S = 120.0
PAUSE_S = 0.02
#: Whether anybody waits for a lock in this database.
BLOCKED = """
    select exists (select from pg_locks l join pg_stat_activity a using (pid)
                    where not l.granted and a.datname = current_database())"""


async def until(holds: Callable[[], Awaitable[bool] | bool], what: str, patience_s: float = PATIENCE_S) -> None:
    """Return when `holds` does; `what` names it in the error when it does not come."""
    deadline = time.monotonic() + patience_s
    while True:
        answer = holds()
        if await answer if inspect.isawaitable(answer) else answer:
            return
        assert time.monotonic() < deadline, f"waited {patience_s} s in vain: {what}"
        await asyncio.sleep(PAUSE_S)


def wait_until(
    holds: Callable[[], bool], what: str, patience_s: float = PATIENCE_S, *, pause_s: float = PAUSE_S
) -> None:
    """Return when `holds` does, without an event loop; what costs much to ask is asked after longer pauses."""
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline, f"waited {patience_s} s in vain: {what}"
        time.sleep(pause_s)
