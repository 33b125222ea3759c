"""Reads a tenant's log for a snapshot, page by page: each event as a CloudEvent, those of the asked parts alone.

The events are those of transactions that had ended when the export began: a resumed export reads the same ones.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import orjson
from sqlalchemy import Row, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import ONE_PLAN, Database, Settings
from store.driver_rows import DriverRow, fetch_rows
from store.errors import ResourceBusy, RestoredElsewhere, SnapshotRefused
from store.log.catalog import Aggregate
from store.log.reader import is_log_of_cluster
from store.off_loop import run_off_loop
from store.schema import ENTITY_NAME, ENTITY_PROFILE
from store.snapshot import rows
from store.snapshot.events import ATTRIBUTES
from store.snapshot.masking import Masker
from store.snapshot.policy import Part, select_events
from store.snapshot.rows import SnapshotRow

#: The most events of a page.
PAGE = 2000
#: Bytes of events after which a page ends.
PAGE_BYTES = 4_000_000
#: What an export counts: events, markers of erased ones, events of each kind of aggregate.
EXPORTED = ("events", "erased", *(one.value for one in Aggregate))
#: How long an export waits for transactions that are older than the last event, and how often it looks.
SETTLE_S, LOOK_S = 5.0, 0.05
#: A page is read along the index. By the statistics of a log that has just grown, all events behind it were sorted.
IN_ORDER: Settings = {**ONE_PLAN, "enable_sort": "off"}
#: Exports whose marks a process keeps ready.
MASKERS = 4

HEAD = text("""
    select cast(pg_snapshot_xmin(pg_current_snapshot()) as text) as xid, coalesce(max(e.position), 0) as head,
           coalesce(max(e.xid) >= pg_snapshot_xmin(pg_current_snapshot()), false) as is_ahead
      from afterturn.event_store_t e where e.host_id = :host""")
# A unit that is a message of a conversation is history, all others are memory; an erased one keeps its origin.
# Mentions and links of a message are history, too, so that no event of memory lacks its parent.
EVENTS = text("""
    select e.position, e.aggregate_type, e.data ? 'erased' as erased, afterturn.cloud_event_text(e) as payload
      from afterturn.event_store_t e
     where e.host_id = :host and e.position > :after and e.position <= :head
       and e.xid < cast(cast(:xid as text) as xid8)
       and (cast(:banks as uuid[]) is null or e.bank_id = any(cast(:banks as uuid[])))
       and e.event_type = any(cast(:events as text[]))
       and (:history or not exists (
            select from afterturn.agent_memory_unit_t u
             where u.host_id = e.host_id and u.bank_id = e.bank_id and u.origin = 'message'
               and u.unit_id = any(array[cast(e.data->>'unitId' as uuid), cast(e.data->>'fromUnitId' as uuid),
                                         cast(e.data->>'toUnitId' as uuid)])))
       and (:memory or e.aggregate_type <> 'AgentMemoryUnit' or exists (
            select from afterturn.agent_memory_unit_t u
             where u.host_id = e.host_id and u.bank_id = e.bank_id and u.origin = 'message'
               and u.unit_id = cast(e.data->>'unitId' as uuid) and u.doc_id is null))
     order by e.position limit :limit""")


@dataclass(frozen=True, slots=True)
class ExportedPage:
    """A page of an export: CloudEvents as JSON texts, and the snapshot's row as of its end."""

    events: Sequence[str] = field(repr=False)
    row: SnapshotRow


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """What to export: parts, banks (None: every bank), whether masked, and by whom it was asked."""

    parts: frozenset[Part]
    made_by: str
    banks: tuple[UUID, ...] | None = None
    masked: bool = False
    overridden: bool = False


class Exports:
    """Exports of tenants' logs; each is a row, which says how far it came."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self._maskers: dict[UUID, Masker] = {}

    async def begin(self, host: UUID, asked: ExportRequest) -> SnapshotRow:
        """Begin an export of the log as it is now, and return its row.

        Raises RestoredElsewhere; ResourceBusy where a transaction that is older than the log's last event does not end.
        """
        head = await self._read_head(host)
        async with self._database.tenant(host) as connection:
            row = SnapshotRow(
                host,
                uuid4(),
                rows.EXPORT,
                asked.parts,
                asked.made_by,
                self._clock(),
                banks=asked.banks,
                masked=asked.masked,
                overridden=asked.overridden,
                xid=head.xid,
                head=head.head,
                mark_key=secrets.token_bytes(32) if asked.masked else None,
            )
            await rows.insert_row(connection, row)
        return row

    async def _read_head(self, host: UUID) -> Row[Any]:
        """Return up to where the log is read, once every event in it is of a transaction that readers see as ended."""
        until = time.monotonic() + SETTLE_S
        while True:
            async with self._database.tenant(host) as connection:
                if not await is_log_of_cluster(connection):
                    raise RestoredElsewhere
                head = (await connection.execute(HEAD, {"host": host})).one()
            if not head.is_ahead:
                return head
            if time.monotonic() > until:
                raise ResourceBusy("a long transaction of this database server has not ended: try again")
            await asyncio.sleep(LOOK_S)

    async def read_page(self, host: UUID, snapshot: UUID, after: int, limit: int = PAGE) -> ExportedPage:
        """Return the events after a position; with an empty page, behind the last event, the export is done.

        A page may be read again until then: the next call confirms it. Raises NotFound; SnapshotRefused for an
        export that is done.
        """
        async with self._database.tenant(host, IN_ORDER) as connection:
            row = await rows.read_row(connection, host, snapshot, lock=True)
            if row.kind != rows.EXPORT or row.status == rows.DONE:
                raise SnapshotRefused("this export is done, or it is none: begin another")
            found = await self._read_events(connection, row, after, limit)
            masker = await self._find_masker(connection, row)
            texts, last = _cut_page(found)
            whole = len(texts) == len(found) and len(found) < limit
            row.place = row.head if whole else last
            # A page that is read again is counted once, because the counts belong to its place.
            if last > row.counts["counted_to"]:
                page, counted = found[: len(texts)], row.counts["counted_to"]
                new = [(kind, erased) for position, kind, erased, _ in page if position > counted]
                row.counts["events"] += len(new)
                row.counts["erased"] += sum(erased for _, erased in new)
                row.counts.update(kind for kind, _ in new)
                row.counts["counted_to"] = last
            if not found:
                row.status = rows.DONE
                self._maskers.pop(snapshot, None)
            await rows.save_row(connection, row, self._clock())
        if masker is not None:
            texts = await run_off_loop(sum(map(len, texts)), _mask_events, texts, masker)
        return ExportedPage(texts, row)

    async def _read_events(
        self, connection: AsyncConnection, row: SnapshotRow, after: int, limit: int
    ) -> Sequence[DriverRow]:
        if not row.parts:
            return ()
        arguments = {
            "host": row.host,
            "after": after,
            "head": row.head,
            "xid": row.xid,
            "banks": None if row.banks is None else list(row.banks),
            "events": sorted(select_events(row.parts)),
            "history": Part.HISTORY in row.parts,
            "memory": Part.MEMORY in row.parts,
            "limit": limit,
        }
        return await fetch_rows(connection, EVENTS, arguments)

    async def _find_masker(self, connection: AsyncConnection, row: SnapshotRow) -> Masker | None:
        if row.mark_key is None:
            return None
        if row.snapshot_id not in self._maskers:
            if len(self._maskers) >= MASKERS:
                self._maskers.clear()
            names = select(ENTITY_NAME.c.name).where(ENTITY_NAME.c.host_id == row.host)
            known = names.union(select(ENTITY_PROFILE.c.name).where(ENTITY_PROFILE.c.host_id == row.host))
            found = (await connection.execute(known)).scalars().all()
            self._maskers[row.snapshot_id] = await run_off_loop(sum(map(len, found)), Masker, row.mark_key, found)
        return self._maskers[row.snapshot_id]


def _cut_page(found: Sequence[DriverRow]) -> tuple[list[str], int]:
    """Return the events that fit a page, one at least, and the position of the last one."""
    texts, size, last = list[str](), 0, 0
    for position, _, _, payload in found:
        if texts and size + len(payload) > PAGE_BYTES:
            break
        texts.append(payload)
        size, last = size + len(payload), position
    return texts, last


def _mask_events(texts: Sequence[str], masker: Masker) -> list[str]:
    return [_mask_event(orjson.loads(one), masker) for one in texts]


def _mask_event(event: dict[str, Any], masker: Masker) -> str:
    # An extension attribute is a caller's: only those of the envelope stay.
    kept = {name: value for name, value in event.items() if name in ATTRIBUTES}
    return orjson.dumps({**kept, "data": masker.mask_data(event["data"])}).decode()
