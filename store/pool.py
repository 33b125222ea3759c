"""A connection pool that says how long calls wait for a connection."""

import time

from sqlalchemy import AsyncAdaptedQueuePool, PoolProxiedConnection
from sqlalchemy.exc import TimeoutError as PoolTimeout

from store.metrics import POOL_TIMEOUTS, POOL_WAIT_SECONDS


class MeasuredPool(AsyncAdaptedQueuePool):
    """Observes the wait of a call that finds every connection lent; others cost nothing more."""

    def connect(self) -> PoolProxiedConnection:
        """Lend a connection, as the pool does, and observe the wait."""
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
