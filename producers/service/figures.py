"""The figures of the service over the last hour: one reader a process serves all its streams."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta

import structlog
from afterturn_client.contract.figures import FigureReport, FigureSample

from producers.errors import Unavailable
from store.concurrent_calls import run_meanwhile
from store.database_outage import may_pass

#: Least seconds between two readings: with an open stream, and without one.
WATCHED_S, QUIET_S = 5.0, 15.0
#: The pause after a reading, in durations of that reading: readings take at most a tenth of the time.
PAUSE = 9
#: Samples that are kept: of an hour, each so much after the one before it, but for the newest.
KEPT, KEPT_EVERY = timedelta(hours=1), timedelta(seconds=QUIET_S - 1)
#: Seconds that a call waits for the first reading.
FIRST_S = 10.0

#: Reads the figures: a report whose one sample is the newest.
ReadFigures = Callable[[], Awaitable[FigureReport]]

log = structlog.get_logger("afterturn.api")


class FigureFeed:
    """Reads the figures at intervals and wakes the streams that wait for them. Belongs to one event loop."""

    def __init__(self, read: ReadFigures) -> None:
        """Read by this function, once `run` is called."""
        self._read = read
        self._newest: FigureReport | None = None
        self._samples: deque[FigureSample] = deque()
        self._watchers = 0
        self._wanted = asyncio.Event()
        self._changed = asyncio.Condition()
        self.is_closed = False

    async def run(self, ending: asyncio.Event) -> None:
        """Read until `ending` is set; then end all streams."""
        async with run_meanwhile(self._read_for_ever(), "figures"):
            await ending.wait()
        self.is_closed = True
        async with self._changed:
            self._changed.notify_all()

    async def read_now(self) -> None:
        """Read the figures once, and wake the streams that wait for them."""
        try:
            found = await self._read()
        except Exception as error:  # noqa: BLE001 - the next reading may succeed; one fault ends no stream
            if not may_pass(error):
                log.warning("figures_unreadable", error=type(error).__name__)
            return
        self._keep(found.samples[-1])
        async with self._changed:
            self._newest = found
            self._changed.notify_all()

    @property
    def is_watched(self) -> bool:
        """Whether a stream is open."""
        return self._watchers > 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Read more often during the block."""
        self._watchers += 1
        self._wanted.set()
        try:
            yield
        finally:
            self._watchers -= 1

    async def report(self, after: datetime | None = None) -> FigureReport:
        """Return the newest figures, with the samples after a moment. Raises Unavailable before the first reading."""
        found = await self.wait_after(None, FIRST_S)
        if found is None:
            raise Unavailable("no figures were read yet: try again in some seconds")
        return self._describe(found, after)

    async def wait_after(self, after: datetime | None, within_s: float) -> FigureReport | None:
        """Wait for figures that are newer than a moment; return them with the samples since then.

        None: there were none in that time, or the feed is closed.
        """
        try:
            async with asyncio.timeout(within_s), self._changed:
                await self._changed.wait_for(lambda: self.is_closed or self._find_newer(after) is not None)
        except TimeoutError:
            return None
        found = self._find_newer(after)
        return None if found is None else self._describe(found, after)

    def _find_newer(self, after: datetime | None) -> FigureReport | None:
        newest = self._newest
        return newest if newest is not None and (after is None or newest.samples[-1].at > after) else None

    def _describe(self, newest: FigureReport, after: datetime | None) -> FigureReport:
        chosen = tuple(one for one in self._samples if after is None or one.at > after)
        return replace(newest, samples=chosen)

    async def _read_for_ever(self) -> None:
        while True:
            begun = time.monotonic()
            await self.read_now()
            least = max(WATCHED_S, PAUSE * (time.monotonic() - begun))
            await asyncio.sleep(least)
            self._wanted.clear()
            if not self.is_watched:
                await self._wait_for_watcher(QUIET_S - least)

    async def _wait_for_watcher(self, within_s: float) -> None:
        try:
            async with asyncio.timeout(max(0.0, within_s)):
                await self._wanted.wait()
        except TimeoutError:
            return

    def _keep(self, sample: FigureSample) -> None:
        kept = self._samples
        if len(kept) > 1 and kept[-1].at - kept[-2].at < KEPT_EVERY:
            kept.pop()
        kept.append(sample)
        while kept[0].at < sample.at - KEPT:
            kept.popleft()
