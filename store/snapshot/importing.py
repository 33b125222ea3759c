"""Takes a snapshot's events into a tenant's log, and makes what derived state lacks afterwards.

Every step may be repeated: an event that the log knows changes nothing. What the target has erased does not come back,
and what the snapshot says is erased is erased in the target, too. Into another tenant, or under replacement rules,
every id is derived anew before an event is judged.
"""

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import NO_SYNC, Database
from store.derived.completion import complete_bank
from store.erasure import Erasures, ErasureTarget
from store.errors import NotFound, SnapshotRefused, StoreError
from store.snapshot import rows
from store.snapshot.mapped_ids import MappedIds, forget_dry_run, forget_interrupted, lock_mapping
from store.snapshot.pieces import BatchTaker, Problem, Taken
from store.snapshot.policy import Part
from store.snapshot.replacements import Replacements
from store.snapshot.rows import SnapshotRow
from store.throttle import Throttle

#: Failed events of one batch that are told, each with its number; parked ones are all told, to be sent again later.
MOST_TOLD = 100
#: Seconds of one call after which deriving pauses between two transactions.
DERIVING_S = 10.0
NO_RULES = Replacements()
#: The counters of an import, in the order they are shown.
COUNTERS = (
    "total",
    "imported",
    "validated",
    "skippedDuplicateInput",
    "skippedExistingTarget",
    "skippedExactDuplicate",
    "skippedErased",
    "erasedHere",
    "parked",
    "failed",
)

# Banks that got events while the import ran, from any writer: completing a complete bank changes nothing.
BANKS = text("""
    select distinct e.bank_id from afterturn.event_store_t e
     where e.host_id = :host and e.position > :first and e.position <= :last order by e.bank_id""")
HEAD = text("select coalesce(max(e.position), 0) from afterturn.event_store_t e where e.host_id = :host")
LIMITED = text("select exists (select from afterturn.quota_t q where q.host_id = :host)")
RECOUNT_NOW = text("select afterturn.recount_quota(:host, :now, interval '0')")


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """What to import: the parts that the snapshot says it holds, by whom it was asked, and which snapshot of whom.

    `keeps_digests`: the digests of turns were made with the tenant's own key. Others would be of no body: left out.
    `rules`: ids are derived anew, by these rules; None: they stay. `names`: those of users and agents of the source.
    """

    parts: frozenset[Part]
    made_by: str
    source: UUID
    source_host: UUID
    masked: bool = False
    dry_run: bool = False
    keeps_digests: bool = False
    rules: Replacements | None = None
    names: Sequence[str] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class TakenBatch:
    """The result of a batch: the row as of its end, and the events that were not taken, `parked` with its number."""

    row: SnapshotRow
    problems: Sequence[Problem]


class _Paused(Exception):
    """The time of one call is over; the next one goes on."""


@dataclass(frozen=True)
class _ErasedElsewhere(ErasureTarget):
    """The target of an erasure that a snapshot brings: its ids are known, its names are not."""

    bank_id: UUID | None = None
    thing: UUID | None = None

    def ids(self, host: UUID) -> tuple[UUID | None, UUID]:
        """Return the ids of the bank and of the target."""
        return self.bank_id, self.thing or host


class Imports:
    """Imports of snapshots into tenants; each is a row with its progress."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self._erasures = Erasures(database, clock)

    async def begin(self, host: UUID, asked: ImportRequest) -> SnapshotRow:
        """Begin an import, and return its row; an unfinished one of the same snapshot and rules goes on."""
        row = SnapshotRow(
            host,
            uuid4(),
            rows.IMPORT,
            asked.parts,
            asked.made_by,
            self._clock(),
            masked=asked.masked,
            dry_run=asked.dry_run,
            source=asked.source,
            source_host=asked.source_host,
            mapping=None if asked.rules is None else asked.rules.identify(asked.source_host),
            keeps_digests=asked.keeps_digests,
        )
        async with self._database.tenant(host) as connection:
            await forget_interrupted(connection, host, self._clock())
            if row.mapping is not None:
                await lock_mapping(connection, row.mapping)
            row = await self._find_or_insert(connection, row)
            if asked.rules is not None:
                await MappedIds(self._database, row, asked.rules).learn_people(connection, asked.names)
        return row

    async def _find_or_insert(self, connection: AsyncConnection, row: SnapshotRow) -> SnapshotRow:
        if begun := await rows.find_unfinished(connection, row):
            return begun
        row.head = int((await connection.execute(HEAD, {"host": row.host})).scalar_one())
        await rows.insert_row(connection, row)
        return row

    async def take(
        self,
        host: UUID,
        snapshot: UUID,
        first: int,
        lines: Sequence[Any],
        *,
        fail_fast: bool = False,
        rules: Replacements = NO_RULES,
    ) -> TakenBatch:
        """Take the events from number `first` (from 0) on; a batch that was taken already changes nothing.

        `fail_fast`: nothing of a batch with a failed event is written, and SnapshotRefused names it. `rules`: those
        that the import began with. Raises NotFound; SnapshotRefused for a gap and for other rules; QuotaExceeded.
        """
        async with self._database.tenant(host) as connection:
            row = await rows.read_row(connection, host, snapshot)
            limited = bool((await connection.execute(LIMITED, {"host": host})).scalar_one())
        if row.kind != rows.IMPORT:
            raise SnapshotRefused("this is no import")
        if (row.mapping is None and rules) or row.mapping not in {None, rules.identify(row.source_host or host)}:
            raise SnapshotRefused("this import began with other replacement rules: send those with every batch")
        if first > row.place:
            raise SnapshotRefused(f"this import has taken {row.place} events: send those from there on")
        if first + len(lines) <= row.place:
            return TakenBatch(row, ())
        if row.status != rows.RUNNING:
            raise SnapshotRefused("this import takes no more events: begin another")
        taker = BatchTaker(self._database, row, rules, fail_fast=fail_fast, limited=limited)
        try:
            await taker.take(lines[row.place - first :])
        except StoreError:
            # Problems are told by the answer alone: events that have one are sent again.
            if taker.taken.events and not taker.taken.problems:
                await self._save(row, await self._erase(host, taker.taken))
            raise
        return TakenBatch(await self._save(row, await self._erase(host, taker.taken)), _choose_problems(taker.taken))

    async def finish(self, host: UUID, snapshot: UUID, expected: int) -> SnapshotRow:
        """Complete derived state, for about DERIVING_S; call again until the row is done.

        `expected`: the number of events that the snapshot's last line tells. Raises NotFound; SnapshotRefused where
        another number was taken.
        """
        async with self._database.tenant(host) as connection:
            row = await rows.read_row(connection, host, snapshot, lock=True)
            if row.kind != rows.IMPORT:
                raise SnapshotRefused("this is no import")
            if row.place != expected:
                raise SnapshotRefused(f"the snapshot is cut off: {row.place} of {expected} events were taken")
            if row.status == rows.DONE:
                return row
            if row.status == rows.RUNNING:
                row.status = rows.DERIVING
                row.counts["derived_to"] = int((await connection.execute(HEAD, {"host": host})).scalar_one())
            await rows.save_row(connection, row, self._clock())
        done = row.dry_run or await self._derive(host, row)
        async with self._database.tenant(host) as connection:
            row = await rows.read_row(connection, host, snapshot, lock=True)
            if done:
                row.status = rows.DONE
            await rows.save_row(connection, row, self._clock())
            if done:
                await forget_dry_run(connection, row, self._clock())
        return row

    async def _save(self, row: SnapshotRow, taken: Taken) -> SnapshotRow:
        """Save an import's progress; the commit waits for the disk, and so covers the appends before it."""
        async with self._database.tenant(row.host) as connection:
            held = await rows.read_row(connection, row.host, row.snapshot_id, lock=True)
            if held.place == row.place:
                held.place += taken.events
                held.counts.update(taken.counts)
                await rows.save_row(connection, held, self._clock())
        return held

    async def _erase(self, host: UUID, taken: Taken) -> Taken:
        """Erase things that the snapshot marks as erased and the target still has; count them."""
        for kind, bank, thing in dict.fromkeys(taken.to_erase):
            try:
                target = _ErasedElsewhere(kind, bank_id=bank, thing=thing, name=str(thing))
                await self._erasures.run(host, await self._erasures.request(host, target))
                taken.counts["erasedHere"] += 1
            except NotFound:
                continue
        return taken

    async def _derive(self, host: UUID, row: SnapshotRow) -> bool:
        """Complete every bank that has events since the import began; return whether all is done."""
        until, throttle = time.monotonic() + DERIVING_S, Throttle(self._database)

        @asynccontextmanager
        async def begin() -> AsyncGenerator[AsyncConnection]:
            if time.monotonic() > until:
                raise _Paused
            # The commit that notes a bank waits for the disk, and covers these.
            async with throttle.step(), self._database.tenant(host, NO_SYNC) as connection:
                yield connection

        async with self._database.tenant(host) as connection:
            asked = {"host": host, "first": row.head, "last": row.counts["derived_to"]}
            banks = (await connection.execute(BANKS, asked)).scalars().all()
        try:
            for done, bank in enumerate(banks[row.counts["derived_banks"] :], row.counts["derived_banks"] + 1):
                await complete_bank(begin, host, bank, self._clock())
                await self._note_banks(row, done)
        except _Paused:
            return False
        async with self._database.call() as connection:
            await connection.execute(RECOUNT_NOW, {"host": host, "now": self._clock()})
        return True

    async def _note_banks(self, row: SnapshotRow, done: int) -> None:
        """Note that the first banks are complete; another call may have noted more."""
        async with self._database.tenant(row.host) as connection:
            held = await rows.read_row(connection, row.host, row.snapshot_id, lock=True)
            held.counts["derived_banks"] = max(held.counts["derived_banks"], done)
            await rows.save_row(connection, held, self._clock())


def _choose_problems(taken: Taken) -> list[Problem]:
    problems = sorted(taken.problems, key=lambda one: one.event)
    failed = [one for one in problems if one.counter == "failed"][:MOST_TOLD]
    return sorted([*failed, *(one for one in problems if one.counter != "failed")], key=lambda one: one.event)
