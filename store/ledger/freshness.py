"""Freshness: the log position that a read shows and the progress of each stage."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import orjson
from afterturn_client.contract.freshness import Freshness
from sqlalchemy import Row, bindparam, exists, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.driver_rows import DriverRow
from store.errors import PositionBeyondLog
from store.ledger.stages import OWN, Stage
from store.schema import EVENT_STORE

Sleep = Callable[[float], Awaitable[None]]

#: A waiting call looks again after a share of the time it has waited, which bounds how late it notices.
LOOK_SHARE, SHORTEST_LOOK_S, LONGEST_LOOK_S = 0.1, 0.008, 0.1

#: Undone rows of a stage that a recall counts before it searches.
IN_PASSING = 500

#: The columns that `build_freshness` reads; `most`: the most undone rows of a stage that are counted (null: all).
FRESHNESS = text("select * from afterturn.freshness(:host, :bank, cast(:most as bigint))")
#: The freshness of a bank as one call, with all undone rows counted.
READ = "select * from afterturn.read_freshness($1, $2)"
SHOWS = select(
    exists().where(EVENT_STORE.c.host_id == bindparam("host"), EVENT_STORE.c.position == bindparam("position"))
)
ISSUED = text("select case when is_called then last_value else 0 end from afterturn.log_position_seq")


def lower_embedded(freshness: Freshness, position: int | None) -> Freshness:
    """Return the freshness of a bank whose first text without a vector of the live model has this position."""
    return freshness if position is None else replace(freshness, embedded=min(freshness.embedded, position - 1))


def merge_freshness(of: Sequence[Freshness]) -> Freshness:
    """Return the freshness of several banks: the highest position, each stage's lowest progress, all undone rows."""
    return Freshness(
        position=max(one.position for one in of),
        embedded=min(one.embedded for one in of),
        extracted=min(one.extracted for one in of),
        projected=min(one.projected for one in of),
        pending=sum(one.pending for one in of),
    )


async def fetch_freshness(database: Database, host: UUID, bank: UUID) -> Freshness:
    """Read the freshness of a bank in one call; an unwritten bank is all zero."""
    [row] = await database.fetch(READ, host, bank)
    return _build_freshness(row["shown"], row["first_undone"], row["pending"])


async def read_freshness(connection: AsyncConnection, host: UUID, bank: UUID) -> Freshness:
    """Read the freshness of a bank inside the tenant's transaction; an unwritten bank is all zero."""
    return build_freshness((await connection.execute(FRESHNESS, {"host": host, "bank": bank, "most": None})).one())


def build_freshness(row: Row[Any] | DriverRow) -> Freshness:
    """Return the freshness of a row that has the columns of FRESHNESS."""
    return _build_freshness(row.shown, row.first_undone, row.pending)


def _build_freshness(shown: int, first_undone: str, pending: int) -> Freshness:
    passed = _find_passed(shown, orjson.loads(first_undone))
    return Freshness(
        position=shown,
        embedded=passed[Stage.EMBEDDING],
        extracted=passed[Stage.EXTRACTION],
        projected=passed[Stage.PROJECTION],
        pending=pending,
    )


def _find_passed(shown: int, first_undone: Mapping[str, int]) -> dict[str, int]:
    """Return the position up to which each of our own stages (by the registry here or in SQL) has no undone row."""
    return {stage: min(shown, first_undone.get(stage, shown + 1) - 1) for stage in {*OWN, *first_undone}}


def compute_poll_delay(waited_s: float) -> float:
    """Return in how many seconds a call that has waited `waited_s` seconds looks again."""
    return min(max(waited_s * LOOK_SHARE, SHORTEST_LOOK_S), LONGEST_LOOK_S)


class Waiter:
    """Lets reads wait until they show a position, and tells truly whether they do."""

    def __init__(self, database: Database, sleep: Sleep = asyncio.sleep) -> None:
        """Keep the database to read from, and the function that pauses between two reads."""
        self._database = database
        self._sleep = sleep

    async def shown(self, host: UUID, position: int, wait_ms: int) -> bool:
        """Wait until a read of `host` shows `position`, at most `wait_ms`; return whether it does.

        Raises PositionBeyondLog for a position that was never issued.
        """

        async def looks() -> bool:
            async with self._database.tenant(host) as connection:
                if position <= 0:
                    return True
                if (await connection.execute(SHOWS, {"host": host, "position": position})).scalar():
                    return True
                if position > int((await connection.execute(ISSUED)).scalar_one()):
                    raise PositionBeyondLog("this position was never issued by this log")
                return False

        return await self._poll(looks, wait_ms)

    async def reached(self, host: UUID, position: int, wait_ms: int) -> bool:
        """Wait like `shown`, but on a replica, which cannot tell a position never issued from one not replayed yet."""

        async def looks() -> bool:
            async with self._database.tenant(host) as connection:
                arguments = {"host": host, "position": position}
                return position <= 0 or bool((await connection.execute(SHOWS, arguments)).scalar())

        return await self._poll(looks, wait_ms)

    async def passed(self, host: UUID, bank: UUID, position: int, wait_ms: int) -> bool:
        """Wait until all our own stages of the bank passed `position`, at most `wait_ms`; return whether they did."""

        async def looks() -> bool:
            [row] = await self._database.fetch(READ, host, bank)
            return all(first > position for first in orjson.loads(row["first_undone"]).values())

        return await self.shown(host, position, wait_ms) and await self._poll(looks, wait_ms)

    async def _poll(self, look: Callable[[], Awaitable[bool]], wait_ms: int) -> bool:
        begun = time.monotonic()
        while not await look():
            waited = time.monotonic() - begun
            if waited >= wait_ms / 1000:
                return False
            await self._sleep(compute_poll_delay(waited))
        return True
