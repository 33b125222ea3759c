"""What the store measures of its connections. No labels: all pools of a process are one."""

from prometheus_client import Counter, Histogram

POOL_WAIT_SECONDS = Histogram(
    "afterturn_pool_wait_seconds",
    "Seconds a call waited because every connection of its pool was lent; calls that found one are not counted",
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10),
)
POOL_TIMEOUTS = Counter("afterturn_pool_timeouts", "Calls that got no database connection in time")
