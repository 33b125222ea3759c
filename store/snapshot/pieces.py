"""Takes one batch of a snapshot's events into a tenant's log, in pieces: one is read while the server appends the last.

An event that the log knows, in any version, changes nothing. What the tenant has erased does not come back.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import Row, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.erasure import Kind
from store.errors import ConcurrencyError, EventRefused, QuotaExceeded, SnapshotRefused
from store.log.bulk import EMPTY, Columns, append_absent
from store.log.catalog import Aggregate
from store.off_loop import iterate_giving_way, run_off_loop
from store.schema import ERASURE
from store.snapshot.events import ReadEvent, UnreadableEvent, read_event
from store.snapshot.mapped_ids import MappedIds
from store.snapshot.replacements import Replacements
from store.snapshot.rewriting import ClashingName, Rewriting, UnnamedBank
from store.snapshot.rows import SnapshotRow
from store.throttle import Throttle

#: Events of the first piece, for which the server waits, and of the largest: 50 ms of a bank's lock. How much longer
#: each is than the last one: it is read in less than half of the time in which the server appends as many.
FIRST_PIECE, LARGEST_PIECE, GROWTH = 60, 800, 2.5
#: Characters of an event, by which it is judged whether a piece is read off the event loop.
EVENT_CHARACTERS = 500
#: The field of a history's event that holds the keyed digest of a turn's body.
DIGEST = "bodyDigest"
#: Why an event has no place in another tenant.
UNNAMED = "no event of the snapshot names its bank"
CLASHES = "something else of the snapshot has its name here: change the replacement rules"

# Known events of the log: by id, and the version of their aggregates.
KNOWN = text("""
    select o.nth, s.id is not null as known, s.data ? 'erased' as erased,
           s.data - 'bodyDigest' = o.data - 'bodyDigest' as equal,
           (select max(a.aggregate_version) from afterturn.event_store_t a
             where a.host_id = :host and a.bank_id = o.bank
               and a.aggregate_key = afterturn.key_of(o.subject)) as version
      from unnest(cast(:ids as uuid[]), cast(:banks as uuid[]), cast(:subjects as text[]), cast(:data as jsonb[]))
           with ordinality as o(id, bank, subject, data, nth)
      left join lateral (select s.id, s.data from afterturn.event_store_t s
                          where s.host_id = :host and s.id = o.id offset 0) s on true
     order by o.nth""")
CHARGE = text("""
    update afterturn.quota_t q set turns = q.turns + c.turns, bytes = q.bytes + c.bytes
      from unnest(cast(:scopes as uuid[]), cast(:turns as bigint[]), cast(:bytes as bigint[])) as c(scope, turns, bytes)
     where q.host_id = :host and q.scope_id = c.scope""")
QUOTAS = text("""
    select q.bank_name is null as whole, q.scope_id, q.max_turns, q.turns, q.max_bytes, q.bytes
      from afterturn.quota_t q where q.host_id = :host""")
_ERASURE = ERASURE.c

#: Aggregates that are erased on their own, where their last event is a marker.
_ERASABLE = {
    Aggregate.UNIT.value: (Kind.UNIT, "unitId"),
    Aggregate.DOC.value: (Kind.DOCUMENT, "docId"),
    Aggregate.DIRECTIVE.value: (Kind.DIRECTIVE, "directiveId"),
}

#: An event with its number in the batch, from 0.
Numbered = tuple[int, ReadEvent]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an event was not taken: its number in the snapshot, from 1, the counter it is in, and the reason."""

    event: int
    counter: str
    reason: str


@dataclass(slots=True)
class Taken:
    """What became of events that follow number `first` of a snapshot: how many they are, counts, and problems.

    `to_erase`: units, documents and directives that the snapshot says are erased, and the target still has.
    """

    first: int
    events: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)
    to_erase: list[tuple[Kind, UUID, UUID]] = field(default_factory=list)

    def note(self, nth: int, counter: str, reason: str) -> None:
        """Count an event that was not taken, and keep the reason."""
        self.counts[counter] += 1
        self.problems.append(Problem(self.first + nth + 1, counter, reason))

    def add(self, piece: "Taken") -> None:
        """Count a piece that ended."""
        self.events += piece.events
        self.counts.update(piece.counts)
        self.problems += piece.problems
        self.to_erase += piece.to_erase


class BatchTaker:
    """Takes a batch of an import; `taken` counts the pieces of it that are in the log, also after an error."""

    def __init__(
        self, database: Database, row: SnapshotRow, rules: Replacements, *, fail_fast: bool, limited: bool
    ) -> None:
        """Take for the import of this row; `fail_fast`: nothing is written where an event failed; `limited`: quotas."""
        self._database = database
        self._row, self._host = row, row.host
        self._mapped = None if row.mapping is None else MappedIds(database, row, rules)
        self._fail_fast, self._limited = fail_fast, limited
        # Usually the append finds known events. A dry run and an import under quotas look them up before.
        self._looks_up_known = row.dry_run or limited
        self._seen = set[tuple[str, int]]()
        self._throttle = Throttle(database)
        self.taken = Taken(row.place)

    async def take(self, lines: Sequence[Any]) -> None:
        """Take events, those of a dry run without writing them.

        Raises SnapshotRefused with fail_fast, QuotaExceeded.
        """
        writing: asyncio.Task[None] | None = None
        try:
            for start, piece in self._cut_pieces(lines):
                # Meanwhile the server appends the piece before.
                async with self._throttle.step():
                    ready = await self._read(start, piece)
                if writing:
                    await writing
                writing = asyncio.create_task(self._write(*ready))
            if writing:
                await writing
        finally:
            if writing:
                await asyncio.gather(writing, return_exceptions=True)

    async def _read(self, start: int, lines: Sequence[Any]) -> tuple[Taken, list[Numbered], Columns]:
        """Return the events of a piece with the ids that they have here; unreadable and repeated ones are counted."""
        piece = Taken(self._row.place, len(lines), Counter(total=len(lines)))
        events = await run_off_loop(len(lines) * EVENT_CHARACTERS, _read_lines, start, lines, self._row, piece)
        if self._mapped is not None:
            rewriting = await self._mapped.prepare([event for _, event in events])
            events = await run_off_loop(len(events) * EVENT_CHARACTERS, _rewrite_events, events, rewriting, piece)
        if self._fail_fast and piece.counts["failed"]:
            raise _refuse_failed(piece)
        events = list(self._iterate_first(events, piece))
        if self._looks_up_known:
            events = await self._drop_known(events, piece)
        return piece, events, await _build_columns_of(events)

    def _iterate_first(self, events: Iterable[Numbered], piece: Taken) -> Iterator[Numbered]:
        """Yield the events whose aggregate has no event of the same version before them in the batch."""
        for nth, event in events:
            if (event.subject, event.version) in self._seen:
                piece.counts["skippedDuplicateInput"] += 1
            else:
                self._seen.add((event.subject, event.version))
                yield nth, event

    def _cut_pieces(self, lines: Sequence[Any]) -> Iterator[tuple[int, Sequence[Any]]]:
        """Yield the pieces of a batch with their places in it; while others call, they are short."""
        start, size = 0, len(lines) if self._fail_fast else FIRST_PIECE
        while start < len(lines):
            yield start, lines[start : start + size]
            start += size
            if not self._fail_fast:
                size = FIRST_PIECE if self._throttle.is_shared else min(int(size * GROWTH), LARGEST_PIECE)

    async def _write(self, piece: Taken, events: Sequence[Numbered], columns: Columns) -> None:
        """Append a piece, and count it."""
        async with self._throttle.step():
            if self._row.dry_run:
                piece.counts["validated"] += len(events)
            else:
                if self._limited:
                    await self._charge_quotas(events)
                await self._append(piece, events, columns)
        self.taken.add(piece)

    async def _append(self, piece: Taken, events: Sequence[Numbered], columns: Columns) -> None:
        """Append events; those that the log refuses are told apart by halves."""
        if not events:
            return
        try:
            others = await append_absent(self._database, self._host, columns, unerased=not self._looks_up_known)
        except EventRefused as refused:
            if len(events) == 1:
                self._note_refused(piece, events[0][0], refused)
                return
            for half in slice(len(events) // 2), slice(len(events) // 2, None):
                await self._append(piece, events[half], [column[half] for column in columns])
            return
        if others is None:
            self._looks_up_known = True
            kept = await self._drop_known(events, piece)
            await self._append(piece, kept, await _build_columns_of(kept))
            return
        piece.counts["imported"] += len(events) - len(others)
        kept = await self._drop_known([events[nth] for nth in others], piece)
        # The log has an event of this id, about something else.
        piece.counts["skippedExistingTarget"] += len(kept)

    def _note_refused(self, piece: Taken, nth: int, refused: EventRefused) -> None:
        """Park an event whose parent or predecessor is not in the log; another has failed."""
        piece.note(nth, "failed" if isinstance(refused, ConcurrencyError) else "parked", str(refused))
        if self._fail_fast:
            raise _refuse_failed(piece) from None

    async def _drop_known(self, events: Sequence[Numbered], piece: Taken) -> list[Numbered]:
        """Return the events that the log lacks and that nothing has erased; count the others."""
        if not events:
            return []
        asked = {
            "host": self._host,
            "ids": [event.id for _, event in events],
            "banks": [event.bank for _, event in events],
            "subjects": [event.subject for _, event in events],
            "data": [orjson.dumps(event.data).decode() for _, event in events],
        }
        async with self._database.tenant(self._host) as connection:
            known = (await connection.execute(KNOWN, asked)).all()
            ended = await _read_erased(connection, self._host, [event for _, event in events])
        return [one for one, there in zip(events, known, strict=True) if not _count_known(one[1], there, ended, piece)]

    async def _charge_quotas(self, events: Sequence[Numbered]) -> None:
        """Charge turns and bytes of these events; their banks are the log's to charge. Raises QuotaExceeded."""
        turns, sizes = Counter[UUID](), Counter[UUID]()
        for _, event in events:
            for scope in (self._host, event.bank):
                turns[scope] += _begins_turn(event)
                sizes[scope] += event.data.get("bytes") or 0
        async with self._database.tenant(self._host) as connection:
            for limit in (await connection.execute(QUOTAS, {"host": self._host})).all():
                of = "host" if limit.whole else "bank"
                if limit.max_turns is not None and limit.turns + turns[limit.scope_id] > limit.max_turns:
                    raise QuotaExceeded("max_turns", of, limit.max_turns)
                if limit.max_bytes is not None and limit.bytes + sizes[limit.scope_id] > limit.max_bytes:
                    raise QuotaExceeded("max_bytes", of, limit.max_bytes)
            scopes = sorted(turns.keys() | sizes.keys())
            charged = {"turns": [turns[one] for one in scopes], "bytes": [sizes[one] for one in scopes]}
            await connection.execute(CHARGE, {"host": self._host, "scopes": scopes, **charged})


async def _build_columns_of(events: Sequence[Numbered]) -> Columns:
    return await run_off_loop(len(events) * EVENT_CHARACTERS, _build_columns, [event for _, event in events])


def _build_columns(events: Sequence[ReadEvent]) -> Columns:
    if not events:
        return EMPTY
    *columns, data, metadata = zip(*events, strict=True)
    told = [orjson.dumps(one).decode() for one in iterate_giving_way(data)]
    return *columns, told, [one and orjson.dumps(one).decode() for one in metadata]


def _read_lines(start: int, lines: Sequence[Any], row: SnapshotRow, piece: Taken) -> list[Numbered]:
    found = list[Numbered]()
    host = row.host if row.mapping is None else row.source_host or row.host
    for nth, line in enumerate(iterate_giving_way(lines), start):
        try:
            event = read_event(line, host)
        except UnreadableEvent as error:
            piece.note(nth, "failed", str(error))
            continue
        if not row.keeps_digests:
            event.data.pop(DIGEST, None)
        found.append((nth, event))
    return found


def _rewrite_events(events: Sequence[Numbered], rewriting: Rewriting, piece: Taken) -> list[Numbered]:
    found = list[Numbered]()
    for nth, event in iterate_giving_way(events):
        try:
            found.append((nth, rewriting.rewrite(event)))
        except ClashingName:
            piece.note(nth, "failed", CLASHES)
        except UnnamedBank:
            # The marker of a thing that never came here has nothing to mark.
            if event.erased:
                piece.counts["skippedErased"] += 1
            else:
                piece.note(nth, "parked", UNNAMED)
    return found


def _count_known(event: ReadEvent, there: Row[Any], ended: Mapping[UUID, datetime], piece: Taken) -> bool:
    """Count an event that the log has or that was erased; return whether it was one."""
    if there.erased and not event.erased if there.known else _is_erased(event, ended):
        piece.counts["skippedErased"] += 1
    elif there.known and there.equal:
        piece.counts["skippedExactDuplicate"] += 1
    elif (there.version or 0) >= event.version:
        piece.counts["skippedExistingTarget"] += 1
        if event.erased and there.known and not there.erased and event.aggregate in _ERASABLE:
            kind, name = _ERASABLE[event.aggregate]
            piece.to_erase.append((kind, event.bank, UUID(event.data[name])))
    else:
        return False
    return True


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
    """Return whether the target erased the subject of an event after the event was made."""
    return not event.erased and any(event.at <= ended[one] for one in event.about & ended.keys())


def _refuse_failed(piece: Taken) -> SnapshotRefused:
    first = min((one for one in piece.problems if one.counter == "failed"), key=lambda one: one.event)
    return SnapshotRefused(f"event {first.event} failed ({first.reason}); nothing after it was taken")
