"""The duration of each step of a recall."""

import time
from collections.abc import Callable, Mapping


class StepTimer:
    """A stop-watch: each step ends where the next begins, so that all of them together are the whole."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._since = clock()
        self._took: dict[str, float] = {}

    def done(self, name: str) -> None:
        """Note that the step of this name ends now; a step that is done again takes so much longer."""
        now = self._clock()
        self._took[name] = round(self._took.get(name, 0.0) + (now - self._since) * 1000, 3)
        self._since = now

    def milliseconds(self) -> Mapping[str, float]:
        """Return what each step took, in the order they were done."""
        return dict(self._took)
