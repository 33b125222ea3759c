"""A circuit breaker within one process: a plugin that failed repeatedly is not asked for a while."""

import time
from collections.abc import Callable

from producers.perimeter.errors import CircuitOpen

#: Failures in a row that open it, and seconds that it stays open.
THRESHOLD = 3
COOLDOWN_S = 60.0


class CircuitBreaker:
    """Opens at `threshold` failures in a row, for `cooldown_s` seconds of the clock `now`; then it counts anew."""

    def __init__(
        self, threshold: int = THRESHOLD, cooldown_s: float = COOLDOWN_S, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._threshold, self._cooldown_s, self._now = threshold, cooldown_s, now
        self._failures = 0
        self._open_until: float | None = None

    def check(self) -> None:
        """Let a call pass. Raises CircuitOpen."""
        if self._open_until is None:
            return
        left = self._open_until - self._now()
        if left > 0:
            raise CircuitOpen(left)
        self._open_until, self._failures = None, 0

    def record_failure(self) -> None:
        """Count a call that got no answer, or a 5xx; one that was under way when the breaker opened is not counted."""
        if self._open_until is None:
            self._failures += 1
            if self._failures >= self._threshold:
                self._open_until = self._now() + self._cooldown_s

    def record_success(self) -> None:
        """Start to count anew: the plugin answered, if only with a refusal."""
        if self._open_until is None:
            self._failures = 0
