"""Which banks' waiting words a process keeps opened: those that are asked again and again while very many wait."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from uuid import UUID

import orjson
import structlog

from store.database import Database
from store.recall.opened import Opened
from store.recall.waiting import ALL_OPENED

log = structlog.get_logger(__name__)

#: From so many waiting units on they are kept opened, of banks with no more than so many: about 1 KB each.
MANY, MOST = 1000, 50_000
#: Banks kept opened at a time.
MOST_BANKS = 4
#: Rows that are taken in at a time: meanwhile nobody else is answered.
TOGETHER = 25
#: Asked again within so long, in seconds, a bank is opened: that takes as long as ten recalls save.
AGAIN_S = 2.0
#: How long nothing is opened after what came to nothing, in seconds.
REST_S = 30.0


class Openings:
    """Opens the words of banks beside their recalls; make it, use it and close it on one event loop."""

    def __init__(
        self, database: Database, *, many: int = MANY, most: int = MOST, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.many = many
        self._database, self._most, self._clock = database, most, clock
        self._opened: OrderedDict[tuple[UUID, UUID], Opened] = OrderedDict()
        self._task: asyncio.Task[None] | None = None
        self._rest_until = float("-inf")
        #: The bank that was found laden last, and when.
        self._laden: tuple[tuple[UUID, UUID] | None, float] = (None, 0.0)

    def of(self, host: UUID, bank: UUID) -> Opened | None:
        """Return what is opened of a bank; None where each recall reads for itself."""
        opened = self._opened.get((host, bank))
        if opened is not None:
            self._opened.move_to_end((host, bank))
        return opened

    def noted(self, host: UUID, bank: UUID, waiting: int) -> None:
        """Take note of how many units wait: a bank is opened where that is many, and let go where it is not."""
        opened = self._opened.get((host, bank))
        if opened is not None and (waiting < self.many // 2 or waiting > self._most or opened.worn):
            del self._opened[host, bank]
        elif opened is None and waiting >= self.many:
            (before, at), self._laden = self._laden, ((host, bank), self._clock())
            if before == (host, bank) and self._clock() - at < AGAIN_S and self._may():
                self._task = asyncio.get_running_loop().create_task(self._open(host, bank), name="open waiting words")

    def overtaken(self, host: UUID, bank: UUID) -> None:
        """Let a bank go in which more comes than its recalls can take."""
        self._opened.pop((host, bank), None)
        self._rest_until = self._clock() + REST_S

    async def close(self) -> None:
        """Wait for what is being opened."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def _may(self) -> bool:
        return (self._task is None or self._task.done()) and self._clock() >= self._rest_until

    async def _open(self, host: UUID, bank: UUID) -> None:
        try:
            opened = await self._read(host, bank)
        except Exception as error:  # noqa: BLE001 - whatever it was, each recall reads for itself
            log.warning("words that wait were not opened", error=type(error).__name__)
            opened = Opened()
        if opened.seen is None or len(opened) > self._most:
            self._rest_until = self._clock() + REST_S
            return
        self._opened[host, bank] = opened
        while len(self._opened) > MOST_BANKS:
            self._opened.popitem(last=False)

    async def _read(self, host: UUID, bank: UUID) -> Opened:
        opened = Opened()
        arguments = {"host": host, "bank": bank, "most": self._most + 1}
        async with self._database.tenant(host) as connection:
            found = await connection.stream(ALL_OPENED, arguments)
            async for rows in found.partitions(TOGETHER):
                for row in rows:
                    place = (row.session_id, row.seq)
                    opened.take(row.unit_id, row.version, place, row.length, orjson.loads(row.terms))
                    opened.seen = row.seen
                await asyncio.sleep(0)
        return opened
