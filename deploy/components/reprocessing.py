"""Reprocesses stored turns: opens ledger rows for turns that a new version has not processed, in bounded batches.

The rows are ordinary work in the ledger: an interrupted command resumes when it is started again, and no row is opened
twice.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from sqlalchemy import bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from deploy.notices import Say
from store.database import Database
from store.derived.readings import FollowUp, Unread, open_follow_ups
from store.ledger.stages import Stage
from store.schema import HOST, LEDGER
from store.sql_constants import inline

#: Turns read in one statement.
PAGE_TURNS = 256
#: Pause between two counts of undone rows, in seconds.
POLL_INTERVAL_S = 0.25
#: Between two lines of progress, in seconds.
REPORT_INTERVAL_S = 2.0

HOSTS = select(HOST.c.host_id).order_by(HOST.c.host_id)
# Uses the index of ready rows, and counts no further than `most`.
_READY = (
    select(LEDGER.c.item_id)
    .where(
        LEDGER.c.stage == bindparam("stage"),
        LEDGER.c.undone,
        LEDGER.c.next_attempt_at < inline("infinity"),
    )
    .limit(bindparam("most"))
)
UNDONE = select(func.count()).select_from(_READY.subquery())


class Reprocessing(Protocol):
    """A kind of processing that stored turns may lack."""

    @property
    def stage(self) -> Stage:
        """The stage that does the work."""
        ...

    async def lacking(
        self, connection: AsyncConnection, host: UUID, bank: UUID | None, after: int, limit: int
    ) -> Sequence[Unread]:
        """Return turns of a host that lack this processing, after a log position and in log order."""
        ...

    def item(self, one: Unread) -> UUID:
        """Return the id of the ledger row for a turn that lacks this processing."""
        ...


@dataclass(slots=True)
class ReprocessingProgress:
    """Progress of a run: turns that lacked the processing, ledger rows opened, turns that still lack it at the end."""

    turns: int = 0
    opened: int = 0
    left: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ReprocessingScope:
    """The turns to reprocess: those of one host (None: all hosts), and of one of its banks (None: all banks)."""

    host: UUID | None = None
    bank: UUID | None = None


async def reprocess_turns(
    database: Database,
    course: Reprocessing,
    scope: ReprocessingScope,
    *,
    ahead: int,
    timeout_s: float,
    say: Say,
) -> ReprocessingProgress:
    """Open work for turns that lack it, at most `ahead` undone rows at a time; wait for its end up to `timeout_s`."""
    begun = said = time.monotonic()
    progress = ReprocessingProgress()
    for host in await _list_hosts(database, scope):
        after = 0
        while page := await _read_lacking_page(database, course, scope, host, after):
            progress.turns += len(page)
            progress.opened += await _open_rows(database, course, host, page)
            after = page[-1].position
            if time.monotonic() - said >= REPORT_INTERVAL_S:
                said = time.monotonic()
                say(f"{progress.opened} turns opened")
            if not await _wait_until_below(database, course.stage, ahead, begun + timeout_s):
                break
    await _wait_until_below(database, course.stage, 1, begun + timeout_s)
    progress.left = await _count_lacking_turns(database, course, scope)
    progress.seconds = time.monotonic() - begun
    return progress


async def _list_hosts(database: Database, scope: ReprocessingScope) -> list[UUID]:
    if scope.host is not None:
        return [scope.host]
    async with database.operator() as connection:
        return list((await connection.execute(HOSTS)).scalars())


async def _read_lacking_page(
    database: Database, course: Reprocessing, scope: ReprocessingScope, host: UUID, after: int
) -> Sequence[Unread]:
    async with database.tenant(host) as connection:
        return await course.lacking(connection, host, scope.bank, after, PAGE_TURNS)


async def _open_rows(database: Database, course: Reprocessing, host: UUID, page: Sequence[Unread]) -> int:
    wanted = []
    for one in page:
        item = course.item(one)
        place = (one.bank, one.session, one.turn, one.position, one.accepted_at)
        wanted.append(FollowUp(course.stage, item, item, *place, reads_texts=True))
    async with database.tenant(host) as connection:
        return await open_follow_ups(connection, host, wanted)


async def _wait_until_below(database: Database, stage: Stage, most: int, until: float) -> bool:
    """Wait until fewer than `most` rows of a stage are undone; False when `until` passed before."""
    while True:
        async with database.operator() as connection:
            undone = (await connection.execute(UNDONE, {"stage": stage.value, "most": most})).scalar_one()
        if undone < most:
            return True
        if time.monotonic() >= until:
            return False
        await asyncio.sleep(POLL_INTERVAL_S)


async def _count_lacking_turns(database: Database, course: Reprocessing, scope: ReprocessingScope) -> int:
    left = 0
    for host in await _list_hosts(database, scope):
        after = 0
        while page := await _read_lacking_page(database, course, scope, host, after):
            left, after = left + len(page), page[-1].position
    return left
