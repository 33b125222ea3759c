"""Reads a host's log as its followers do, and offers what it read again: what tests of the log compare with."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.errors import RestoredElsewhere
from store.log.catalog import COLUMNS, EVENTS, ID_FIELDS, EventType, aggregate_id, parse_event_data
from store.log.reader import ADVANCE, HOLD, OPEN, LogPosition, is_log_of_cluster

PAGE = text("""
    select cast(cast(e.xid as text) as bigint) as xid, e.position, e.id, afterturn.cloud_event(e) as payload
      from afterturn.event_store_t e
     where e.host_id = :host and (e.xid, e.position) > (cast(cast(:xid as text) as xid8), cast(:position as bigint))
       and e.xid < pg_snapshot_xmin(pg_current_snapshot())
     order by e.xid, e.position limit :limit""")
#: The attributes that every envelope has; further ones are the event's metadata.
ATTRIBUTES = frozenset(
    (
        *("specversion", "id", "source", "type", "subject", "time", "datacontenttype"),
        *("host", "user", "nonce", "aggregatetype", "aggregateversion", "data"),
    )
)


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event of the log; `payload` is the whole CloudEvent."""

    place: LogPosition
    id: UUID
    payload: Mapping[str, Any] = field(repr=False)


async def read_events(connection: AsyncConnection, host: UUID, after: LogPosition, limit: int) -> list[LoggedEvent]:
    """Return the next events of a host after a place; later calls return later events only."""
    if not await is_log_of_cluster(connection):
        raise RestoredElsewhere
    arguments = {"host": host, "xid": str(after.xid), "position": after.position, "limit": limit}
    rows = await connection.execute(PAGE, arguments)
    return [LoggedEvent(LogPosition(row.xid, row.position), row.id, row.payload) for row in rows]


@asynccontextmanager
async def next_page(database: Database, host: UUID, name: str, limit: int = 500) -> AsyncGenerator[list[LoggedEvent]]:
    """Read the next events of a subscription and set its checkpoint after them, in one transaction."""
    key = {"host": host, "name": name}
    async with database.tenant(host) as connection:
        await connection.execute(OPEN, key)
        row = (await connection.execute(HOLD, key)).one()
        events = await read_events(connection, host, LogPosition(row.xid, row.position), limit)
        yield events
        if events:
            last = events[-1].place
            await connection.execute(ADVANCE, {**key, "xid": str(last.xid), "position": last.position})


def build_reoffer(whole: Mapping[str, Any]) -> dict[str, Any]:
    """Return a CloudEvent of a log in the form that the log's functions take, with checked data."""
    kind, told = EventType(whole["type"]), whole["data"]
    data = parse_event_data(kind, told)
    spec = EVENTS[kind]
    parts = [told.get(name) for name in ("hostId", "bankId", *ID_FIELDS[spec.aggregate])]
    assert whole["specversion"] == "1.0"
    assert whole["aggregatetype"] == spec.aggregate
    assert whole["subject"] == aggregate_id(*parts)
    assert (whole["host"], whole["aggregateversion"]) == (str(data.host_id), data.new_aggregate_version)
    metadata = {name: value for name, value in whole.items() if name not in ATTRIBUTES}
    return {
        "id": whole["id"],
        "type": kind.value,
        "aggregate": whole["aggregatetype"],
        "subject": whole["subject"],
        "bank": str(data.bank_id),
        "user": whole["user"],
        "ts": whole["time"],
        "version": whole["aggregateversion"],
        "data": _without_columns(told),
        **({"metadata": metadata} if metadata else {}),
    }


def _without_columns(told: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name not in COLUMNS}
