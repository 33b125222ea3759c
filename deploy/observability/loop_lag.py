"""Measures the lag of an event loop.

Import it only when the folder of samples is known (deploy/api/__main__.py, deploy/worker/__main__.py).
"""

import asyncio
import time
from contextlib import AbstractAsyncContextManager

from prometheus_client import Histogram

from store.concurrent_calls import run_meanwhile

#: Pause between two measurements, in seconds.
PAUSE_S = 0.5
LOOP_LAG_SECONDS = Histogram(
    "afterturn_event_loop_lag_seconds",
    "Seconds by which a timer of an event loop came late, looked at twice a second",
    ["process"],
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5),
)


async def record_loop_lag(process: str) -> None:
    """Record the lag of the running event loop in the histogram, until cancelled; `process` is `api` or `worker`."""
    observed = LOOP_LAG_SECONDS.labels(process)
    while True:
        began = time.monotonic()
        await asyncio.sleep(PAUSE_S)
        observed.observe(max(0.0, time.monotonic() - began - PAUSE_S))


def measure_loop_lag(process: str) -> AbstractAsyncContextManager[object]:
    """Record the lag of the running event loop in the histogram while the block runs."""
    return run_meanwhile(record_loop_lag(process), "measure the lag of the event loop")
