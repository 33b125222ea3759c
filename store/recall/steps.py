"""Measures how long each step of a recall takes."""

import time
from collections.abc import Callable, Mapping, Sequence


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

    def milliseconds(self, first: Sequence[str] = ()) -> Mapping[str, float]:
        """Return how many milliseconds each step took: those named in their order, then the others as they ended."""
        names = [name for name in first if name in self._took]
        names += [name for name in self._took if name not in first]
        return {name: round(self._took[name], 3) for name in names}
