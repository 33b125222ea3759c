"""Waits until no work is pending or running."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

#: Shortest pause between two counts, in seconds.
POLL_INTERVAL_S = 0.5
#: Largest share of the time that counting may take.
SHARE = 0.1
#: Between two lines of progress, in seconds.
REPORT_INTERVAL_S = 5.0


#: Counts rows by status.
CountRows = Callable[[], Awaitable[Mapping[str, int]]]


@dataclass(frozen=True, slots=True)
class DrainState:
    """The last count: rows undone, dead and unknown; `waited_s` is the time since the first count, in seconds."""

    undone: int
    dead: int
    unknown: int
    waited_s: float

    @property
    def done(self) -> bool:
        """Whether nothing was undone."""
        return not self.undone


async def wait_until_drained(
    count: CountRows,
    timeout_s: float,
    say: Callable[[str], None],
    seen: Callable[[DrainState], None],
) -> DrainState:
    """Count until nothing is undone or `timeout_s` is over, and return the last count.

    `seen` is called with every count, `say` with a line of progress every REPORT_INTERVAL_S seconds.
    """
    begun = said = time.monotonic()
    before: DrainState | None = None
    while True:
        began = time.monotonic()
        counts = await count()
        undone = counts["pending"] + counts["running"]
        now = DrainState(undone, counts["dead"], counts["unknown"], time.monotonic() - begun)
        seen(now)
        if now.done or now.waited_s >= timeout_s:
            return now
        if time.monotonic() - said >= REPORT_INTERVAL_S or before is None:
            say(_describe_progress(now, before))
            said, before = time.monotonic(), now
        pause = max(POLL_INTERVAL_S, (time.monotonic() - began) / SHARE)
        await asyncio.sleep(min(pause, max(0.0, timeout_s - now.waited_s)))


def _describe_progress(now: DrainState, before: DrainState | None) -> str:
    line = f"{now.undone} pieces of work undone"
    if before and (passed := now.waited_s - before.waited_s) > 0:
        rate = (before.undone - now.undone) / passed
        line += f", {abs(rate):.1f} a second {'fewer' if rate >= 0 else 'more'}"
    return line + (f"; {now.dead} dead, {now.unknown} unknown" if now.dead or now.unknown else "")
