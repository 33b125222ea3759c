"""Load shedding: refuses work of a tenant with a growing backlog, the least valuable first.

    1  vectors made at once by the API (`embedding_rows`)      the workers make them
    2  recall jobs (`recall_job_rows`, `recall_job_age_s`)     429 RATE_LIMITED with Retry-After; recall itself goes on
    3  batches of turns (`batch_rows`, `batch_age_s`)          429 RATE_LIMITED with Retry-After
    -  a single turn is never refused for the sake of a backlog: only where the database cannot take it (503)

Only a tenant's own rows count: the backlog of one tenant refuses nothing to another. Backlogs are read in the
background, never within a request: the last reading is used while the next is taken.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from uuid import UUID

import structlog

from producers import metrics
from producers.errors import Overloaded
from producers.settings import PressureSettings
from store.ledger.ledger import Depth

log = structlog.get_logger("afterturn.api")

#: How long a reading of the backlogs is used, in seconds.
LOOK_EVERY_S = 2.0
#: The next reading waits this many times as long as the last one took, but no longer than LONGEST_REST_S.
REST, LONGEST_REST_S = 50, 30.0
#: Tenants whose backlog is remembered; about 200 bytes each.
HOSTS_KEPT = 10_000

#: Reads the backlog of each of some hosts, counted up to a number of rows.
Look = Callable[[Sequence[UUID], int], Awaitable[Mapping[UUID, Depth]]]


class Shed(IntEnum):
    """Levels of load shedding; each includes the lower ones."""

    NOTHING = 0
    EMBEDDING = 1
    RECALL_JOBS = 2
    BATCHES = 3


@dataclass(slots=True)
class LoadShedder:
    """Sheds the load of one process by the backlog of each tenant that sends requests."""

    look: Look
    settings: PressureSettings
    clock: Callable[[], float] = time.monotonic
    _depths: dict[UUID, Depth] = field(default_factory=dict)
    _asked: set[UUID] = field(default_factory=set)
    _look_at: float = float("-inf")
    _looking: asyncio.Task[None] | None = None

    def level(self, host: UUID) -> Shed:
        """Return the level of shedding for a tenant, at once; start the next reading when it is due."""
        self._asked.add(host)
        if self.clock() >= self._look_at and (self._looking is None or self._looking.done()):
            self._looking = asyncio.get_running_loop().create_task(self.refresh(), name="read the backlogs")
        return choose_level(self._depths.get(host, Depth()), self.settings)

    def admit(self, host: UUID, what: Shed) -> None:
        """Return unless this work is shed for the tenant. Raises Overloaded."""
        if self.level(host) >= what:
            metrics.SHED.labels(what.name.lower()).inc()
            raise Overloaded(
                "too much of what was sent before is still being processed; retry after the given seconds",
                self.settings.retry_after_s,
            )

    async def refresh(self) -> None:
        """Read the backlogs of all tenants with requests since the last reading. After a failure nothing is shed."""
        start, hosts = self.clock(), list(self._asked)
        self._asked.clear()
        try:
            found = await self.look(hosts, highest_limit(self.settings))
        except Exception as error:  # noqa: BLE001 - an error of any kind must not stop requests
            found = {}
            log.warning("backlog_unreadable", error=type(error).__name__)
        for host in hosts:
            self._depths.pop(host, None)
        self._depths.update(found)
        while len(self._depths) > HOSTS_KEPT:
            del self._depths[next(iter(self._depths))]
        metrics.PRESSURE.set(max((choose_level(one, self.settings) for one in found.values()), default=Shed.NOTHING))
        took = self.clock() - start
        self._look_at = self.clock() + max(LOOK_EVERY_S, min(REST * took, LONGEST_REST_S))


def choose_level(depth: Depth, settings: PressureSettings) -> Shed:
    """Return the level of shedding at this depth of a backlog."""
    limits = (
        (Shed.BATCHES, settings.batch_rows, settings.batch_age_s),
        (Shed.RECALL_JOBS, settings.recall_job_rows, settings.recall_job_age_s),
        (Shed.EMBEDDING, settings.embedding_rows, None),
    )
    for shed, rows, age in limits:
        if _reaches_limit(depth.rows, rows) or _reaches_limit(depth.oldest_s, age):
            return shed
    return Shed.NOTHING


def highest_limit(settings: PressureSettings) -> int:
    """Return the highest limit of rows, up to which backlogs are counted."""
    limits = (settings.batch_rows, settings.recall_job_rows, settings.embedding_rows)
    return max((limit for limit in limits if limit is not None), default=0)


def _reaches_limit(found: float, limit: float | None) -> bool:
    return limit is not None and found >= limit
