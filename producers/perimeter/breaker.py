"""A circuit breaker within one process: after repeated failures, a plugin gets no calls for a while."""

import time
from collections.abc import Callable

from producers.perimeter.errors import CircuitOpen

#: Consecutive failures that open the breaker, and seconds for which it stays open.
THRESHOLD = 3
COOLDOWN_S = 60.0


class CircuitBreaker:
    """A breaker that opens after `threshold` failures in a row for `cooldown_s` seconds of the clock `now`."""

    def __init__(
        self, threshold: int = THRESHOLD, cooldown_s: float = COOLDOWN_S, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._threshold, self._cooldown_s, self._now = threshold, cooldown_s, now
        self._failures = 0
        self._open_until: float | None = None

    def check(self) -> None:
        """Return if a call may be made. Raises CircuitOpen."""
        if self._open_until is None:
            return
        left = self._open_until - self._now()
        if left > 0:
            raise CircuitOpen(left)
        self._open_until, self._failures = None, 0

    def record_failure(self) -> None:
        """Count a call without an answer, or with a 5xx; calls under way when the breaker opened are not counted."""
        if self._open_until is None:
            self._failures += 1
            if self._failures >= self._threshold:
                self._open_until = self._now() + self._cooldown_s

    def record_success(self) -> None:
        """Reset the count: the plugin answered, even if with a refusal."""
        if self._open_until is None:
            self._failures = 0
