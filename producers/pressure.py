"""What is given up while work piles up, and in which order: what costs nobody an answer goes first.

    1  vectors made at once by the API (`embedding_rows`)      the workers make them
    2  recall jobs (`recall_job_rows`, `recall_job_age_s`)     429 RATE_LIMITED with Retry-After; recall itself goes on
    3  batches of turns (`batch_rows`, `batch_age_s`)          429 RATE_LIMITED with Retry-After
    -  a single turn is never refused for the sake of a backlog: only where the database cannot take it (503)

The backlog is read beside the requests, never by one of them: a look that is old is used while the next is taken.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import IntEnum

import structlog

from producers import metrics
from producers.errors import Overloaded
from producers.settings import PressureSettings
from store.depth import Depth

log = structlog.get_logger("afterturn.api")

#: How long a look at the backlog is believed, in seconds.
LOOK_EVERY_S = 2.0
#: A look is not taken again before this many times as long as the last one took, but then at the latest: what was seen
#: while the database stood still says nothing of the hour after it.
REST, LONGEST_REST_S = 50, 30.0


class Shed(IntEnum):
    """What is given up: this, and all that is less."""

    NOTHING = 0
    EMBEDDING = 1
    RECALL_JOBS = 2
    BATCHES = 3


@dataclass(slots=True)
class Pressure:
    """Knows about how deep the backlog is. `look` counts it, up to a number that it is given."""

    look: Callable[[int], Awaitable[Depth]]
    settings: PressureSettings
    clock: Callable[[], float] = time.monotonic
    _depth: Depth = field(default_factory=Depth)
    _look_at: float = float("-inf")
    _looking: asyncio.Task[None] | None = None

    def level(self) -> Shed:
        """Say what is given up now; returns at once, and has somebody look when that is due."""
        if self.clock() >= self._look_at and (self._looking is None or self._looking.done()):
            self._looking = asyncio.get_running_loop().create_task(self.refresh(), name="look at the backlog")
        return level_of(self._depth, self.settings)

    def admit(self, what: Shed) -> None:
        """Let something in, or raise Overloaded when it is given up now."""
        if self.level() >= what:
            metrics.SHED.labels(what.name.lower()).inc()
            raise Overloaded("too much is still to be done; come again later", self.settings.retry_after_s)

    async def refresh(self) -> None:
        """Look now. What cannot be read is no pressure: the database has its own answer then."""
        start = self.clock()
        try:
            self._depth = await self.look(most(self.settings))
        except Exception as error:  # noqa: BLE001 - whatever the driver raises, requests go on
            self._depth = Depth()
            log.warning("the backlog could not be read", error=type(error).__name__)
        metrics.PRESSURE.set(level_of(self._depth, self.settings))
        took = self.clock() - start
        self._look_at = self.clock() + max(LOOK_EVERY_S, min(REST * took, LONGEST_REST_S))


def level_of(depth: Depth, settings: PressureSettings) -> Shed:
    """Return what is given up at such a depth."""
    limits = (
        (Shed.BATCHES, settings.batch_rows, settings.batch_age_s),
        (Shed.RECALL_JOBS, settings.recall_job_rows, settings.recall_job_age_s),
        (Shed.EMBEDDING, settings.embedding_rows, None),
    )
    for shed, rows, age in limits:
        if _reaches(depth.rows, rows) or _reaches(depth.oldest_s, age):
            return shed
    return Shed.NOTHING


def most(settings: PressureSettings) -> int:
    """Return how far it is worth counting: to the highest limit."""
    limits = (settings.batch_rows, settings.recall_job_rows, settings.embedding_rows)
    return max((limit for limit in limits if limit is not None), default=0)


def _reaches(found: float, limit: float | None) -> bool:
    return limit is not None and found >= limit
