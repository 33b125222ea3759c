"""Every call at a door is noted, without a call ever waiting for it.

Notes gather in memory and are written in batches. What comes faster than it can be written, or while the database is
away for long, is dropped and counted: an audit must not be what takes the service down.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

import structlog

from producers.metrics import CALLS_AUDITED
from store.call_audit import Call

log = structlog.get_logger("afterturn.audit")

#: Notes that wait at most; about 300 bytes each.
WAITING_LIMIT = 20_000
#: Notes written by one statement.
BATCH = 1000
#: Pause between two batches, in seconds.
PAUSE_S = 1.0
#: How long a process that stops goes on writing, in seconds.
LAST_S = 2.0

Write = Callable[[Sequence[Call]], Awaitable[None]]


class CallRecorder:
    """Takes notes of calls; call `note` from anywhere on the loop, it returns at once and never raises."""

    def __init__(
        self, write: Write, clock: Callable[[], datetime], *, limit: int = WAITING_LIMIT, pause_s: float = PAUSE_S
    ) -> None:
        self.clock = clock
        self._write = write
        self._limit = limit
        self._pause_s = pause_s
        self._waiting: deque[Call] = deque()

    def note(self, call: Call) -> None:
        """Note a call, or drop it when too many wait already."""
        if len(self._waiting) >= self._limit:
            CALLS_AUDITED.labels("dropped").inc()
        else:
            self._waiting.append(call)

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator[None]:
        """Write what is noted for as long as the block lasts, and at its end what is left, for a moment."""
        ending = asyncio.Event()
        task = asyncio.create_task(self._run(ending), name="write the call audit")
        try:
            yield
        finally:
            ending.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_S):
                    # A batch that is cut off may be written, and would be written again.
                    await task
                    await self.flush()
            CALLS_AUDITED.labels("dropped").inc(len(self._waiting))

    async def flush(self) -> bool:
        """Write all that waits; False when that failed, and it waits on."""
        while self._waiting:
            batch = [self._waiting[n] for n in range(min(BATCH, len(self._waiting)))]
            try:
                await self._write(batch)
            except Exception as error:  # noqa: BLE001 - whatever the driver raises, the door stays open
                log.warning("calls could not be noted", waiting=len(self._waiting), error=type(error).__name__)
                return False
            for _ in batch:
                self._waiting.popleft()
            CALLS_AUDITED.labels("written").inc(len(batch))
        return True

    async def _run(self, ending: asyncio.Event) -> None:
        while not ending.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ending.wait(), self._pause_s)
            await self.flush()
