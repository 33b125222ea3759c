"""Slows long work of a process, such as an import, while others wait for answers of the same database.

Two processors serve an import as fast as they can, and then a turn's acknowledgement waits behind each of its steps.
So beside calls of others the steps run one at a time, and each is followed by a rest.
"""

import time
from asyncio import Lock, sleep
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from store.database import Database, count_as_background

#: How long a rest is, in times of the step before it. Beside a turn every 10 ms, acknowledged in a p95 of 4 ms alone,
#: an import without rests made it 22 ms, with one of the same length 14, and with one of twice the length 11.
REST = 2.0
#: The longest rest, and how long others count as calling after one of their calls, in seconds.
LONGEST_REST_S, LINGER_S = 0.2, 0.1


class Throttle:
    """Slows the steps of one long work while others call; alone, they run side by side without a rest."""

    def __init__(self, database: Database) -> None:
        """Watch the calls of this database; those within a step are the work's own."""
        self._database = database
        self._one = Lock()
        self._until = 0.0

    @property
    def is_shared(self) -> bool:
        """Whether others called a moment ago."""
        return time.monotonic() < self._until

    @asynccontextmanager
    async def step(self) -> AsyncGenerator[None]:
        """Run the block as one step: while others call, after the steps before it, and with a rest behind it."""
        async with AsyncExitStack() as stack:
            if self.is_shared:
                await stack.enter_async_context(self._one)
            calls, begun = self._database.calls, time.monotonic()
            with count_as_background():
                yield
            ended = time.monotonic()
            if self._database.calls != calls:
                self._until = ended + LINGER_S
            if self.is_shared:
                await sleep(min(REST * (ended - begun), LONGEST_REST_S))
