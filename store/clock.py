"""The database's clock, estimated without a query each time, so that all writing processes agree.

Times that one process writes, another compares: when a turn was accepted, when an answer expires, which rows are old
enough to be erased. A machine whose clock is an hour off must not decide that, so all processes use database time.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Self

import structlog
from sqlalchemy import text

from store.concurrent_calls import run_meanwhile
from store.database import Database
from store.database_outage import may_pass

log = structlog.get_logger(__name__)

#: Seconds between two readings of the database's clock: the database may move to another machine, and clocks drift.
ASK_EVERY_S = 30.0
TRY_AGAIN_S = 1.0
#: An answer that took longer than this, in seconds, is too inexact to replace an earlier one.
PROMPT_S = 0.5
#: Difference of the clocks, in seconds, from which a warning is logged.
OFF_S = 5.0

NOW = text("select clock_timestamp()")


def read_machine_time() -> datetime:
    """Return this machine's time in UTC."""
    return datetime.now(UTC)


class DatabaseClock:
    """A callable clock that returns the database's time in UTC; the machine's time before the database's first answer.

    Between two answers it counts by a monotonic clock. Belongs to one event loop.
    """

    def __init__(
        self,
        database: Database,
        machine: Callable[[], datetime] = read_machine_time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._machine = machine
        self._steady = steady
        self._zero: datetime | None = None
        self._known = asyncio.Event()

    @classmethod
    async def asked(cls, database: Database) -> Self:
        """Return a clock that has asked the database once, for one short piece of work. Raises the driver's errors."""
        clock = cls(database)
        await clock.ask()
        return clock

    def __call__(self) -> datetime:
        """Return the current time (UTC)."""
        if self._zero is None:
            return self._machine()
        return self._zero + timedelta(seconds=self._steady())

    async def known(self) -> None:
        """Wait until the database has told its time."""
        await self._known.wait()

    async def ask(self) -> None:
        """Ask the database for its time once. Raises the driver's errors."""
        async with self._database.call() as connection:
            before = self._steady()
            told: datetime = (await connection.execute(NOW)).scalar_one()
            after = self._steady()
        if self._zero is not None and after - before > PROMPT_S:
            return
        if self._zero is None and abs(off := (self._machine() - told).total_seconds()) > OFF_S:
            log.warning("clock_skew", seconds=round(off), using="database time")
        self._zero = told - timedelta(seconds=(before + after) / 2)
        self._known.set()

    @asynccontextmanager
    async def running(self, patience_s: float = 1.0) -> AsyncGenerator[None]:
        """Ask the database at intervals during the block, which begins with its first answer or after `patience_s`."""
        async with run_meanwhile(self.run(), "clock"):
            with suppress(TimeoutError):
                await asyncio.wait_for(self.known(), patience_s)
            yield

    async def run(self) -> None:
        """Ask the database at intervals until cancelled; after a failure ask again sooner."""
        while True:
            try:
                await self.ask()
            except Exception as error:  # noqa: BLE001 - the driver raises many kinds; the next round asks again
                if not may_pass(error):
                    log.warning("database_time_unavailable", error=type(error).__name__)
                await asyncio.sleep(TRY_AGAIN_S)
            else:
                await asyncio.sleep(ASK_EVERY_S)
