"""The one retry loop: repeats an operation after transient errors, with exponential back-off.

In the lowest package, so that every other can use it. `afterturn_client` has its own rules: it stands alone.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]
#: Returns seconds since an arbitrary moment, like time.monotonic.
Clock = Callable[[], float]
#: Returns after how many seconds, at least, the operation may be repeated after this error; None: the error is raised.
Again = Callable[[Exception], float | None]


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that grow: fourfold by default (1 s, 4 s, 16 s, 64 s), each times a random 0.5 to 1.5."""

    base_s: float = 1.0
    factor: float = 4.0
    longest_s: float = 600.0
    chance: Callable[[], float] = field(default=random.random)

    def seconds(self, attempts: int) -> float:
        """Return how many seconds to wait after this many attempts (from 1)."""
        plain = min(self.longest_s, self.base_s * self.factor ** max(0, attempts - 1))
        return plain * (0.5 + self.chance())


#: No waits between retries, for obstacles that are gone at once.
AT_ONCE = Backoff(base_s=0.0)


def wait_evenly(seconds: float) -> Backoff:
    """Return a back-off that waits about this many seconds after every attempt."""
    return Backoff(base_s=seconds, factor=1.0)


@dataclass(frozen=True, slots=True)
class Retry:
    """A retry policy: `attempts` in all (None: without limit), with `backoff` between them."""

    backoff: Backoff
    attempts: int | None = None
    sleep: Sleep = asyncio.sleep
    clock: Clock = time.monotonic

    async def call(self, operation: Callable[[], Awaitable[T]], again: Again, *, deadline: float | None = None) -> T:
        """Repeat the operation after errors that `again` allows, and return its result.

        Raises its last error: one that `again` does not allow, that of the last attempt, or one after which the wait
        would reach the `deadline` on the clock.
        """
        for attempt in count(1):
            try:
                return await operation()
            except Exception as error:
                wait_s = self._wait(attempt, error, again, deadline)
                if wait_s is None:
                    raise
            if wait_s > 0:
                await self.sleep(wait_s)
        raise AssertionError  # attempts are counted without end

    def call_blocking(
        self,
        operation: Callable[[], T],
        again: Again,
        *,
        deadline: float | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> T:
        """Repeat the operation like `call`, without an event loop."""
        for attempt in count(1):
            try:
                return operation()
            except Exception as error:
                wait_s = self._wait(attempt, error, again, deadline)
                if wait_s is None:
                    raise
            sleep(wait_s)
        raise AssertionError  # as above

    def _wait(self, attempt: int, error: Exception, again: Again, deadline: float | None) -> float | None:
        """Return the seconds to wait before the next attempt; None: there is no further attempt."""
        least_s = again(error)
        if least_s is None or attempt == self.attempts:
            return None
        wait_s = max(self.backoff.seconds(attempt), least_s)
        return None if deadline is not None and self.clock() + wait_s >= deadline else wait_s
