"""Takes a snapshot's events into a tenant's log, and makes what derived state lacks afterwards.

Every step may be repeated: an event that the log knows changes nothing. What the target has erased does not come back,
and what the snapshot says is erased is erased in the target, too. Into another tenant, or under replacement rules,
every id is derived anew before an event is judged.
"""

import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import orjson
from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.derived.completion import complete_bank
from store.erasure import Erasures, ErasureTarget, Kind
from store.errors import ConcurrencyError, EventRefused, NotFound, QuotaExceeded, SnapshotRefused
from store.log.bulk import append_bulk
from store.log.catalog import Aggregate
from store.off_loop import run_off_loop
from store.schema import ERASURE
from store.snapshot import rows
from store.snapshot.events import ReadEvent, UnreadableEvent, read_event
from store.snapshot.mapped_ids import MappedIds
from store.snapshot.policy import Part
from store.snapshot.replacements import Replacements
from store.snapshot.rewriting import ClashingName, Rewriting, UnnamedBank
from store.snapshot.rows import SnapshotRow

#: The field of a history's event that holds the keyed digest of a turn's body.
DIGEST = "bodyDigest"
#: Problems of one batch that are told, each with the number of its event.
MOST_TOLD = 100
#: Seconds of one call after which deriving pauses between two transactions.
DERIVING_S = 10.0
NO_RULES = Replacements()
#: Why an event has no place in another tenant.
UNNAMED = "no event of the snapshot names its bank"
CLASHES = "something else of the snapshot has its name here: change the replacement rules"
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

# What the log knows of these events: by id, and the version of their aggregates.
KNOWN = text("""
    select o.nth, s.id is not null as known, s.data ? 'erased' as erased,
           s.data - 'bodyDigest' = o.data - 'bodyDigest' as equal,
           afterturn.logged_version(:host, o.subject) as version
      from unnest(cast(:ids as uuid[]), cast(:subjects as text[]), cast(:data as jsonb[]))
           with ordinality as o(id, subject, data, nth)
      left join lateral (select s.id, s.data from afterturn.event_store_t s
                          where s.host_id = :host and s.id = o.id offset 0) s on true
     order by o.nth""")
_ERASURE = ERASURE.c
# Banks that got events while the import ran, whoever wrote them: completing a complete bank changes nothing.
BANKS = text("""
    select distinct e.bank_id from afterturn.event_store_t e
     where e.host_id = :host and e.position > :first and e.position <= :last order by e.bank_id""")
HEAD = text("select coalesce(max(e.position), 0) from afterturn.event_store_t e where e.host_id = :host")
RECOUNT_NOW = text("select afterturn.recount_quota(:host, :now, interval '0')")
CHARGE = text("""
    update afterturn.quota_t q set turns = q.turns + c.turns, bytes = q.bytes + c.bytes
      from unnest(cast(:scopes as uuid[]), cast(:turns as bigint[]), cast(:bytes as bigint[])) as c(scope, turns, bytes)
     where q.host_id = :host and q.scope_id = c.scope""")
QUOTAS = text("""
    select q.bank_name is null as whole, q.scope_id, q.max_turns, q.turns, q.max_bytes, q.bytes
      from afterturn.quota_t q where q.host_id = :host""")


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an event was not taken: its number in the snapshot, from 1, the counter it is in, and the reason."""

    event: int
    counter: str
    reason: str


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
    """The result of a batch: the row as of its end, and what was not taken, `parked` with its number."""

    row: SnapshotRow
    problems: Sequence[Problem]


@dataclass(slots=True)
class _Batch:
    """A batch under way."""

    first: int
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)
    #: units, documents and directives that the snapshot says are erased, and the target still has
    to_erase: list[tuple[Kind, UUID, UUID]] = field(default_factory=list)

    def note(self, nth: int, counter: str, reason: str) -> None:
        """Count an event that was not taken, and keep the reason."""
        self.counts[counter] += 1
        self.problems.append(Problem(self.first + nth + 1, counter, reason))


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


#: What is erased by itself where its last event is a marker.
_ERASABLE = {
    Aggregate.UNIT.value: (Kind.UNIT, "unitId"),
    Aggregate.DOC.value: (Kind.DOCUMENT, "docId"),
    Aggregate.DIRECTIVE.value: (Kind.DIRECTIVE, "directiveId"),
}


class Imports:
    """Imports of snapshots into tenants; each is a row, which says how far it came."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        """Keep the database and its clock."""
        self._database = database
        self._clock = clock
        self._erasures = Erasures(database, clock)

    async def begin(self, host: UUID, asked: ImportRequest) -> SnapshotRow:
        """Begin an import, and return its row; an unfinished one of the same snapshot and rules goes on."""
        row = await self._begin_row(host, asked)
        if asked.rules is not None:
            await MappedIds(self._database, row, asked.rules).learn_people(asked.names)
        return row

    async def _begin_row(self, host: UUID, asked: ImportRequest) -> SnapshotRow:
        async with self._database.tenant(host) as connection:
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
                head=int((await connection.execute(HEAD, {"host": host})).scalar_one()),
            )
            if begun := await rows.find_unfinished(connection, row):
                return begun
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
        if row.kind != rows.IMPORT or row.status != rows.RUNNING:
            raise SnapshotRefused("this import takes no more events: begin another")
        if (row.mapping is None and rules) or row.mapping not in {None, rules.identify(row.source_host or host)}:
            raise SnapshotRefused("this import began with other replacement rules: send those with every batch")
        if first > row.place:
            raise SnapshotRefused(f"this import has taken {row.place} events: send those from there on")
        if first + len(lines) <= row.place:
            return TakenBatch(row, ())
        batch = _Batch(row.place)
        fresh = lines[row.place - first :]
        events = await run_off_loop(len(fresh) * 500, _read_lines, fresh, row, batch)
        if row.mapping is not None:
            events = await self._rewrite(row, events, rules, batch)
        if fail_fast and batch.counts["failed"]:
            raise _refuse_failed(batch)
        events = await self._drop_known(host, events, batch)
        if row.dry_run:
            batch.counts["validated"] += len(events)
        else:
            await self._charge_quotas(host, events)
            batch.counts["imported"] += await self._append(host, events, batch, fail_fast=fail_fast)
            await self._erase(host, batch)
        batch.counts["total"] += len(fresh)
        told = sorted(batch.problems, key=lambda one: one.event)[:MOST_TOLD]
        return TakenBatch(await self._save(row, len(fresh), batch), told)

    async def finish(self, host: UUID, snapshot: UUID, expected: int) -> SnapshotRow:
        """Make what derived state lacks, for about DERIVING_S; call again until the row is done.

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
        return row

    async def _save(self, row: SnapshotRow, taken: int, batch: _Batch) -> SnapshotRow:
        async with self._database.tenant(row.host) as connection:
            held = await rows.read_row(connection, row.host, row.snapshot_id, lock=True)
            if held.place == row.place:
                held.place += taken
                held.counts.update(batch.counts)
                await rows.save_row(connection, held, self._clock())
        return held

    async def _rewrite(
        self, row: SnapshotRow, events: Sequence[tuple[int, ReadEvent]], rules: Replacements, batch: _Batch
    ) -> list[tuple[int, ReadEvent]]:
        """Return events with the ids that they have here."""
        rewriting = await MappedIds(self._database, row, rules).prepare([event for _, event in events])
        return await run_off_loop(len(events) * 500, _rewrite_events, events, rewriting, batch)

    async def _drop_known(
        self, host: UUID, events: Sequence[tuple[int, ReadEvent]], batch: _Batch
    ) -> list[tuple[int, ReadEvent]]:
        """Return the events that the log lacks and that nothing has erased; count the others."""
        fresh, seen = list[tuple[int, ReadEvent]](), dict[tuple[str, int], ReadEvent]()
        for nth, event in events:
            if (event.subject, event.version) in seen:
                batch.counts["skippedDuplicateInput"] += 1
            else:
                seen[event.subject, event.version] = event
                fresh.append((nth, event))
        if not fresh:
            return []
        asked = {
            "host": host,
            "ids": [event.id for _, event in fresh],
            "subjects": [event.subject for _, event in fresh],
            "data": [orjson.dumps(event.data).decode() for _, event in fresh],
        }
        async with self._database.tenant(host) as connection:
            known = (await connection.execute(KNOWN, asked)).all()
            ended = await _read_erased(connection, host, [event for _, event in fresh])
        kept = list[tuple[int, ReadEvent]]()
        for (nth, event), there in zip(fresh, known, strict=True):
            gone = there.erased and not event.erased if there.known else _is_erased(event, ended)
            if gone:
                batch.counts["skippedErased"] += 1
            elif there.known and there.equal:
                batch.counts["skippedExactDuplicate"] += 1
            elif (there.version or 0) >= event.version:
                batch.counts["skippedExistingTarget"] += 1
                if event.erased and there.known and not there.erased and event.offer["aggregate"] in _ERASABLE:
                    kind, name = _ERASABLE[event.offer["aggregate"]]
                    batch.to_erase.append((kind, event.bank, UUID(event.data[name])))
            else:
                kept.append((nth, event))
        return kept

    async def _append(
        self, host: UUID, events: Sequence[tuple[int, ReadEvent]], batch: _Batch, *, fail_fast: bool
    ) -> int:
        """Append events; those that the log refuses are told apart by halves. Return how many were new."""
        if not events:
            return 0
        try:
            return (await append_bulk(self._database, host, [event.offer for _, event in events])).appended
        except EventRefused as refused:
            if len(events) == 1:
                self._note_refused(events[0][0], refused, batch)
                if fail_fast:
                    raise _refuse_failed(batch) from None
                return 0
        middle = len(events) // 2
        before = await self._append(host, events[:middle], batch, fail_fast=fail_fast)
        return before + await self._append(host, events[middle:], batch, fail_fast=fail_fast)

    def _note_refused(self, nth: int, refused: EventRefused, batch: _Batch) -> None:
        """Park an event whose parent or predecessor is not in the log; another has failed."""
        counter = "failed" if isinstance(refused, ConcurrencyError) else "parked"
        batch.note(nth, counter, str(refused))

    async def _erase(self, host: UUID, batch: _Batch) -> None:
        """Erase what the snapshot says is erased and the target still holds."""
        for kind, bank, thing in dict.fromkeys(batch.to_erase):
            try:
                target = _ErasedElsewhere(kind, bank_id=bank, thing=thing, name=str(thing))
                await self._erasures.run(host, await self._erasures.request(host, target))
                batch.counts["erasedHere"] += 1
            except NotFound:
                continue

    async def _charge_quotas(self, host: UUID, events: Sequence[tuple[int, ReadEvent]]) -> None:
        """Charge turns and bytes of these events; their banks are the log's to charge. Raises QuotaExceeded."""
        turns, sizes = Counter[UUID](), Counter[UUID]()
        for _, event in events:
            for scope in (host, event.bank):
                turns[scope] += _begins_turn(event)
                sizes[scope] += event.data.get("bytes") or 0
        async with self._database.tenant(host) as connection:
            limits = (await connection.execute(QUOTAS, {"host": host})).all()
            for limit in limits:
                of = "host" if limit.whole else "bank"
                if limit.max_turns is not None and limit.turns + turns[limit.scope_id] > limit.max_turns:
                    raise QuotaExceeded("max_turns", of, limit.max_turns)
                if limit.max_bytes is not None and limit.bytes + sizes[limit.scope_id] > limit.max_bytes:
                    raise QuotaExceeded("max_bytes", of, limit.max_bytes)
            if limits:
                scopes = sorted(turns.keys() | sizes.keys())
                charged = {"turns": [turns[one] for one in scopes], "bytes": [sizes[one] for one in scopes]}
                await connection.execute(CHARGE, {"host": host, "scopes": scopes, **charged})

    async def _derive(self, host: UUID, row: SnapshotRow) -> bool:
        """Complete every bank that has events since the import began; return whether all is done."""
        until = time.monotonic() + DERIVING_S

        @asynccontextmanager
        async def begin() -> AsyncGenerator[AsyncConnection]:
            if time.monotonic() > until:
                raise _Paused
            async with self._database.tenant(host) as connection:
                yield connection

        async with self._database.tenant(host) as connection:
            asked = {"host": host, "first": row.head, "last": row.counts["derived_to"]}
            banks = (await connection.execute(BANKS, asked)).scalars().all()
        try:
            for bank in banks[row.counts["derived_banks"] :]:
                await complete_bank(begin, host, bank, self._clock())
                await self._note_bank(row)
        except _Paused:
            return False
        async with self._database.call() as connection:
            await connection.execute(RECOUNT_NOW, {"host": host, "now": self._clock()})
        return True

    async def _note_bank(self, row: SnapshotRow) -> None:
        async with self._database.tenant(row.host) as connection:
            held = await rows.read_row(connection, row.host, row.snapshot_id, lock=True)
            held.counts["derived_banks"] += 1
            await rows.save_row(connection, held, self._clock())


def _read_lines(lines: Sequence[Any], row: SnapshotRow, batch: _Batch) -> list[tuple[int, ReadEvent]]:
    found = list[tuple[int, ReadEvent]]()
    for nth, line in enumerate(lines):
        try:
            event = read_event(line, row.host if row.mapping is None else row.source_host or row.host)
        except UnreadableEvent as error:
            batch.note(nth, "failed", str(error))
            continue
        if not row.keeps_digests:
            event.data.pop(DIGEST, None)
        found.append((nth, event))
    return found


def _rewrite_events(
    events: Sequence[tuple[int, ReadEvent]], rewriting: Rewriting, batch: _Batch
) -> list[tuple[int, ReadEvent]]:
    found = list[tuple[int, ReadEvent]]()
    for nth, event in events:
        try:
            found.append((nth, rewriting.rewrite(event)))
        except ClashingName:
            batch.note(nth, "failed", CLASHES)
        except UnnamedBank:
            # The marker of a thing that never came here has nothing to mark.
            if event.erased:
                batch.counts["skippedErased"] += 1
            else:
                batch.note(nth, "parked", UNNAMED)
    return found


def _begins_turn(event: ReadEvent) -> bool:
    """Return whether an event is the first of a turn's own units."""
    of_turn = event.version == 1 and "turnId" in event.data and event.data.get("origin") != "extraction"
    return of_turn and not event.data.get("ordinal")


async def _read_erased(connection: AsyncConnection, host: UUID, events: Iterable[ReadEvent]) -> Mapping[UUID, datetime]:
    """Return when each of the things that these events are about was last asked to be erased."""
    about = frozenset[UUID]().union(*(event.about for event in events))
    found = select(_ERASURE.target_id, _ERASURE.requested_at).where(
        _ERASURE.host_id == host,
        _ERASURE.kind.in_(("user", "session", "bank", "document", "memory", "unit", "directive")),
        _ERASURE.target_id.in_(about),
    )
    ended = dict[UUID, datetime]()
    for row in await connection.execute(found):
        ended[row.target_id] = max(row.requested_at, ended.get(row.target_id, row.requested_at))
    return ended


def _is_erased(event: ReadEvent, ended: Mapping[UUID, datetime]) -> bool:
    """Return whether the target erased what an event is about after the event was made."""
    return not event.erased and any(event.at <= ended[one] for one in event.about & ended.keys())


def _refuse_failed(batch: _Batch) -> SnapshotRefused:
    first = min((one for one in batch.problems if one.counter == "failed"), key=lambda one: one.event)
    return SnapshotRefused(f"event {first.event} failed ({first.reason}); nothing after it was taken")
