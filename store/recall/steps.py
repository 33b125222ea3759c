"""Measures how long each step of a recall takes."""

import time
from collections.abc import Callable, Mapping


class StepTimer:
    """A stop-watch of consecutive steps: each ends where the next begins, so their sum is the whole time."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._since = clock()
        self._took: dict[str, float] = {}

    def done(self, name: str) -> None:
        """End the step of this name now; the time of a step that is done again is added to its first."""
        now = self._clock()
        self._took[name] = self._took.get(name, 0.0) + (now - self._since) * 1000
        self._since = now

    def milliseconds(self) -> Mapping[str, float]:
        """Return how many milliseconds each step took, in the order in which they ended."""
        return {name: round(took, 3) for name, took in self._took.items()}
