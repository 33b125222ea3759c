"""The rows of snapshots: request, progress, counts. Ids and numbers, no content."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import Row, Select, Text, Uuid, any_, cast, func, insert, literal, or_, select, true, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.errors import NotFound
from store.schema import SNAPSHOT
from store.snapshot.policy import Part

_ROW = SNAPSHOT.c
_READ: Select[*tuple[Any, ...]] = select(
    *(column for column in _ROW if column.name not in {"counts", "xid"}),
    cast(_ROW.counts, Text).label("counts"),
    cast(_ROW.xid, Text).label("xid"),
)
EXPORT, IMPORT = "export", "import"
#: Exports that a receipt names, the newest.
MOST_EXPORTS = 100
RUNNING, DERIVING, DONE = "running", "deriving", "done"


@dataclass(slots=True)
class SnapshotRow:
    """A snapshot: its request and its progress; `mark_key` is the key of an export's marks."""

    host: UUID
    snapshot_id: UUID
    kind: str
    parts: frozenset[Part]
    made_by: str
    started_at: datetime
    banks: tuple[UUID, ...] | None = None
    masked: bool = False
    overridden: bool = False
    dry_run: bool = False
    source: UUID | None = None
    source_host: UUID | None = None
    mapping: UUID | None = None
    keeps_digests: bool = False
    status: str = RUNNING
    xid: str | None = None
    head: int = 0
    place: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    mark_key: bytes | None = field(default=None, repr=False)
    finished_at: datetime | None = None


async def insert_row(connection: AsyncConnection, row: SnapshotRow) -> None:
    """Write a new snapshot, inside the tenant's transaction."""
    values = {
        "host_id": row.host,
        "snapshot_id": row.snapshot_id,
        "kind": row.kind,
        "parts": sorted(row.parts),
        "banks": None if row.banks is None else list(row.banks),
        "masked": row.masked,
        "overridden": row.overridden,
        "dry_run": row.dry_run,
        "source_id": row.source,
        "source_host": row.source_host,
        "mapping_id": row.mapping,
        "keeps_digests": row.keeps_digests,
        "xid": row.xid and int(row.xid),
        "head": row.head,
        "mark_key": row.mark_key,
        "made_by": row.made_by,
        "started_at": row.started_at,
        "updated_at": row.started_at,
    }
    await connection.execute(insert(SNAPSHOT).values(values))


async def read_row(connection: AsyncConnection, host: UUID, snapshot: UUID, *, lock: bool = False) -> SnapshotRow:
    """Return a snapshot, and lock its row until the transaction ends. Raises NotFound, for foreign ones too."""
    query = _READ.where(_ROW.host_id == host, _ROW.snapshot_id == snapshot)
    found = (await connection.execute(query.with_for_update() if lock else query)).one_or_none()
    if found is None:
        raise NotFound("no such snapshot")
    return _build_row(found)


async def find_unfinished(connection: AsyncConnection, row: SnapshotRow) -> SnapshotRow | None:
    """Return the import of the same snapshot that is not finished, and was asked for in the same way."""
    query = _READ.where(
        _ROW.host_id == row.host,
        _ROW.kind == IMPORT,
        _ROW.status != DONE,
        _ROW.source_id == row.source,
        _ROW.dry_run == row.dry_run,
        _ROW.mapping_id.is_not_distinct_from(row.mapping),
    )
    found = (await connection.execute(query.order_by(_ROW.started_at.desc()).limit(1))).one_or_none()
    return None if found is None else _build_row(found)


async def list_exports(
    connection: AsyncConnection, host: UUID, bank: UUID | None, before: datetime | None
) -> Sequence[SnapshotRow]:
    """Return the newest exports with content of a bank (None: of any), begun before a time (None: ever)."""
    query = _READ.where(
        _ROW.host_id == host,
        _ROW.kind == EXPORT,
        func.cardinality(_ROW.parts) > 0,
        true() if bank is None else or_(_ROW.banks.is_(None), literal(bank, Uuid) == any_(_ROW.banks)),
        true() if before is None else _ROW.started_at <= before,
    )
    found = await connection.execute(query.order_by(_ROW.started_at.desc(), _ROW.snapshot_id).limit(MOST_EXPORTS))
    return [_build_row(one) for one in found]


def describe_export(row: SnapshotRow) -> str:
    """Return the name in a receipt of an export whose file may hold the erased content."""
    masked = ", masked" if row.masked else ""
    return f"export {row.snapshot_id} of {row.started_at:%Y-%m-%d %H:%M} UTC: {', '.join(sorted(row.parts))}{masked}"


async def list_rows(connection: AsyncConnection, host: UUID, limit: int) -> Sequence[SnapshotRow]:
    """Return a tenant's snapshots, the newest first."""
    query = _READ.where(_ROW.host_id == host).order_by(_ROW.started_at.desc(), _ROW.snapshot_id).limit(limit)
    return [_build_row(found) for found in await connection.execute(query)]


async def save_row(connection: AsyncConnection, row: SnapshotRow, now: datetime) -> None:
    """Write how far a snapshot came. The key of its marks goes with its end."""
    ended = row.status == DONE
    row.finished_at = now if ended else None
    values = {
        "status": row.status,
        "place": row.place,
        "counts": dict(row.counts),
        "updated_at": now,
        "finished_at": row.finished_at,
        **({"mark_key": None} if ended else {}),
    }
    changed = update(SNAPSHOT).where(_ROW.host_id == row.host, _ROW.snapshot_id == row.snapshot_id)
    await connection.execute(changed.values(values))


def _build_row(found: Row[Any]) -> SnapshotRow:
    return SnapshotRow(
        host=found.host_id,
        snapshot_id=found.snapshot_id,
        kind=found.kind,
        parts=frozenset(Part(one) for one in found.parts),
        made_by=found.made_by,
        started_at=found.started_at,
        banks=None if found.banks is None else tuple(found.banks),
        masked=found.masked,
        overridden=found.overridden,
        dry_run=found.dry_run,
        source=found.source_id,
        source_host=found.source_host,
        mapping=found.mapping_id,
        keeps_digests=found.keeps_digests,
        status=found.status,
        xid=found.xid,
        head=found.head,
        place=found.place,
        counts=Counter(orjson.loads(found.counts)),
        mark_key=found.mark_key and bytes(found.mark_key),
        finished_at=found.finished_at,
    )
