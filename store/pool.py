"""A connection pool that says how long calls wait for a connection."""

import time

from prometheus_client import Counter, Histogram
from sqlalchemy import AsyncAdaptedQueuePool, PoolProxiedConnection
from sqlalchemy.exc import TimeoutError as PoolTimeout

#: Without labels, because the pools of a process are not distinguished.
POOL_WAIT_SECONDS = Histogram(
    "afterturn_pool_wait_seconds",
    "Seconds a call waited because every connection of its pool was lent; calls that found one are not counted",
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10),
)
POOL_TIMEOUTS = Counter("afterturn_pool_timeouts", "Calls that got no database connection in time")


class MeasuredPool(AsyncAdaptedQueuePool):
    """A connection pool that measures how long a call waits when every connection is in use."""

    def connect(self) -> PoolProxiedConnection:
        """Return a connection, and observe the wait for it."""
        if self.checkedout() < self.size():
            return super().connect()
        began = time.monotonic()
        try:
            return super().connect()
        except PoolTimeout:
            POOL_TIMEOUTS.inc()
            raise
        finally:
            POOL_WAIT_SECONDS.observe(time.monotonic() - began)
