"""Running something better over history: work is opened for turns that lack it, no more at a time than workers take.

What is opened stands in the ledger like all work: whoever stops here and begins again goes on where it was, and what is
there already is not opened twice.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.derived.extraction_runs import FollowUp, Unread, open_follow_ups
from store.ledger.ledger import Stage

#: Turns looked at in one statement.
PAGE = 256
#: Pause between two looks at how much is undone, in seconds.
LOOK_S = 0.25
#: Between two lines of progress, in seconds.
SAY_EVERY_S = 2.0

HOSTS = text("select host_id from afterturn.host_t order by host_id")
# By the index of ready rows, and no further than asked.
UNDONE = text("""
    select count(*) from (select from afterturn.ledger_t l
                           where l.stage = :stage and l.undone and l.next_attempt_at < 'infinity' limit :most) l""")


class Course(Protocol):
    """What is to be done with turns that lack it."""

    @property
    def stage(self) -> Stage:
        """Whose work it is."""
        ...

    async def lacking(
        self, connection: AsyncConnection, host: UUID, bank: UUID | None, after: int, limit: int
    ) -> Sequence[Unread]:
        """Return turns of a host that lack it, behind a position and in its order."""
        ...

    def item(self, one: Unread) -> UUID:
        """Return the id of the row that has it done for what lacks it."""
        ...


@dataclass(slots=True)
class Progress:
    """How far it has come: turns that lacked it, rows opened for them now, turns that lack it at the end."""

    turns: int = 0
    opened: int = 0
    left: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Scope:
    """Of one host (None: of all), of one bank of it (None: of all)."""

    host: UUID | None = None
    bank: UUID | None = None


async def run_over(
    database: Database, course: Course, scope: Scope, *, ahead: int, timeout_s: float, say: Callable[[str], None]
) -> Progress:
    """Open the work, at most `ahead` undone rows of its stage at a time, and wait for its end up to `timeout_s`."""
    begun = said = time.monotonic()
    progress = Progress()
    for host in await _hosts(database, scope):
        after = 0
        while page := await _page(database, course, scope, host, after):
            progress.turns += len(page)
            progress.opened += await _open(database, course, host, page)
            after = page[-1].position
            if time.monotonic() - said >= SAY_EVERY_S:
                said = time.monotonic()
                say(f"{progress.opened} turns opened")
            if not await _below(database, course.stage, ahead, begun + timeout_s):
                break
    await _below(database, course.stage, 1, begun + timeout_s)
    progress.left = await _left(database, course, scope)
    progress.seconds = time.monotonic() - begun
    return progress


async def _hosts(database: Database, scope: Scope) -> list[UUID]:
    if scope.host is not None:
        return [scope.host]
    async with database.operator() as connection:
        return list((await connection.execute(HOSTS)).scalars())


async def _page(database: Database, course: Course, scope: Scope, host: UUID, after: int) -> Sequence[Unread]:
    async with database.tenant(host) as connection:
        return await course.lacking(connection, host, scope.bank, after, PAGE)


async def _open(database: Database, course: Course, host: UUID, page: Sequence[Unread]) -> int:
    wanted = []
    for one in page:
        item = course.item(one)
        place = (one.bank, one.session, one.turn, one.position, one.accepted_at)
        wanted.append(FollowUp(course.stage, item, item, *place))
    async with database.tenant(host) as connection:
        return await open_follow_ups(connection, host, wanted)


async def _below(database: Database, stage: Stage, most: int, until: float) -> bool:
    """Wait until fewer than `most` rows of a stage are undone. False: the time was over before."""
    while True:
        async with database.operator() as connection:
            undone = (await connection.execute(UNDONE, {"stage": stage.value, "most": most})).scalar_one()
        if undone < most:
            return True
        if time.monotonic() >= until:
            return False
        await asyncio.sleep(LOOK_S)


async def _left(database: Database, course: Course, scope: Scope) -> int:
    left = 0
    for host in await _hosts(database, scope):
        after = 0
        while page := await _page(database, course, scope, host, after):
            left, after = left + len(page), page[-1].position
    return left
