"""Places for pieces of work: one tenant's long pieces keep no other tenant waiting."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import UUID

#: Seconds that a tenant without a place waits for one of the usual number, before it gets one beyond it.
PATIENCE_S = 0.25


class Places:
    """A number of places, on one event loop. The tenant with the fewest is served first, then the longest waiting.

    A tenant that has none after PATIENCE_S gets one beyond the number, while there are less than twice as many.
    """

    def __init__(self, number: int) -> None:
        """Have `number` places, at least one."""
        self._number = number
        self._held: Counter[UUID] = Counter()
        self._waiting: dict[asyncio.Future[None], UUID] = {}

    @asynccontextmanager
    async def hold(self, tenant: UUID) -> AsyncGenerator[None]:
        """Wait for a place, and keep it while the block runs."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[mine] = tenant
        self._give_places(self._number)
        try:
            await asyncio.wait((mine,), timeout=PATIENCE_S)
            while not mine.done():
                self._give_places(2 * self._number, beyond=True)
                await asyncio.wait((mine,), timeout=PATIENCE_S)
            yield
        finally:
            if self._waiting.pop(mine, None) is None:
                self._held[tenant] -= 1
            self._give_places(self._number)

    def _give_places(self, number: int, *, beyond: bool = False) -> None:
        """Give places while there are less than `number`; those `beyond` the usual number to tenants without any."""
        while self._waiting and self._held.total() < number:
            mine, tenant = min(self._waiting.items(), key=lambda one: self._held[one[1]])
            if beyond and self._held[tenant]:
                return
            del self._waiting[mine]
            self._held[tenant] += 1
            mine.set_result(None)
        self._held += Counter()  # without the tenants that hold none
