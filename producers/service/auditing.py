"""Records every call with a valid key in the audit, without delaying the call.

Records gather in memory and are written in batches. Records that come faster than they can be written, or while the
database is away for long, are dropped and counted, so that the audit cannot take the service down. Calls without a
valid key are summed up, one row a minute for each kind of refusal, so that they cannot crowd out the others.
"""

import asyncio
import contextlib
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime

import structlog

from producers.metrics import CALLS_AUDITED, UNAUTHENTICATED
from store.tenancy.call_audit import NO_HOST, AuditedCall, Interface

log = structlog.get_logger("afterturn.audit")

#: The most records that wait; about 300 bytes each.
WAITING_LIMIT = 20_000
#: Records written by one statement.
BATCH = 1000
#: Pause between two batches, in seconds.
PAUSE_S = 1.0
#: How long a stopping process continues to write, in seconds.
LAST_S = 2.0
#: How often calls without a valid key are summed up, in seconds.
SUM_EVERY_S = 60.0
#: The operation of a row that sums up such calls; its `rows` is their number, its time that of the first.
SUMMED_UP = "calls without a valid key"

Write = Callable[[Sequence[AuditedCall]], Awaitable[None]]
#: The interface of a refused call, and its status and code.
_Refusal = tuple[Interface, int | None, str | None]


class CallRecorder:
    """Records calls in the audit; `note` returns at once and never raises."""

    def __init__(
        self,
        write: Write,
        clock: Callable[[], datetime],
        *,
        limit: int = WAITING_LIMIT,
        pause_s: float = PAUSE_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock = clock
        self._write = write
        self._limit = limit
        self._pause_s = pause_s
        self._waiting: deque[AuditedCall] = deque()
        self._now = now
        self._strangers: Counter[_Refusal] = Counter()
        self._first: dict[_Refusal, AuditedCall] = {}
        self._sum_at = float("-inf")

    def note(self, call: AuditedCall) -> None:
        """Queue a call's record, or drop it when too many wait; a call without a valid key is only counted."""
        if call.host_id == NO_HOST and call.key_id is None:
            self._count(call)
        elif len(self._waiting) >= self._limit:
            CALLS_AUDITED.labels("dropped").inc()
        else:
            self._waiting.append(call)

    def _count(self, call: AuditedCall) -> None:
        UNAUTHENTICATED.labels(call.door.value, str(call.status)).inc()
        refusal = call.door, call.status, call.code
        self._strangers[refusal] += 1
        self._first.setdefault(refusal, call)

    def _sum_up(self) -> None:
        """Queue one row for each kind of refusal, with the number of such calls since the last time."""
        self._waiting.extend(
            replace(call, operation=SUMMED_UP, request_id=None, rows=self._strangers[refusal])
            for refusal, call in self._first.items()
        )
        self._strangers.clear()
        self._first.clear()
        self._sum_at = self._now() + SUM_EVERY_S

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator[None]:
        """Write records during the block, and at its end the remaining ones, for `LAST_S` seconds at most."""
        ending = asyncio.Event()
        task = asyncio.create_task(self._run(ending), name="write the call audit")
        try:
            yield
        finally:
            ending.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_S):
                    # Awaited: a cancelled batch may have been written, and would be written again.
                    await task
                    self._sum_up()
                    await self.flush()
            CALLS_AUDITED.labels("dropped").inc(len(self._waiting))

    async def flush(self) -> bool:
        """Write all waiting records; False when that failed, and they still wait."""
        if self._first and self._now() >= self._sum_at and len(self._waiting) < self._limit:
            self._sum_up()
        while self._waiting:
            batch = [self._waiting[n] for n in range(min(BATCH, len(self._waiting)))]
            try:
                await self._write(batch)
            except Exception as error:  # noqa: BLE001 - an error of any kind must not fail the call
                log.warning("call_audit_failed", waiting=len(self._waiting), error=type(error).__name__)
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
