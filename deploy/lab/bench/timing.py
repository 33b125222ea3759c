"""Times actions in parallel lanes, and computes percentiles."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from math import ceil
from statistics import median

Action = Callable[[], Awaitable[object]]

MILLISECONDS = 1000.0


async def run_lanes(lanes: Sequence[Sequence[Action]]) -> list[float]:
    """Run lanes in parallel, and the actions of a lane in sequence; return the seconds of each action."""
    took = await asyncio.gather(*(_run_lane(lane) for lane in lanes))
    return [seconds for lane in took for seconds in lane]


async def _run_lane(lane: Sequence[Action]) -> list[float]:
    took = []
    for action in lane:
        started = time.perf_counter()
        await action()
        took.append(time.perf_counter() - started)
    return took


def compute_p50_ms(seconds: Sequence[float]) -> float:
    """Return the median of durations in seconds, in milliseconds."""
    return median(seconds) * MILLISECONDS


def compute_p95_ms(seconds: Sequence[float]) -> float:
    """Return the 95th percentile of durations in seconds, in milliseconds."""
    return sorted(seconds)[int(0.95 * (len(seconds) - 1))] * MILLISECONDS


def pick_percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` (0 to 1) of the values do not exceed; 0.0 for none."""
    if not values:
        return 0.0
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]
