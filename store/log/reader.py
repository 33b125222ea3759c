"""Reads a tenant's log in the order of its commits, without gaps, and stamps a restored log for its cluster.

A position is drawn before its transaction commits, so a higher one may be seen first. Readers therefore follow
(xid, position) and stop below the oldest transaction that still runs. Source: Emmett's reading rule.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.pool import NullPool

from store.connections import create_owner_engine
from store.errors import RestoredElsewhere

AT_HOME = text("""
    select c.system_identifier = s.system_identifier from public.afterturn_cluster c, pg_control_system() s""")
PAGE = text("""
    select cast(cast(e.xid as text) as bigint) as xid, e.position, e.id, afterturn.cloud_event(e) as payload
      from afterturn.event_store_t e
     where e.host_id = :host and (e.xid, e.position) > (cast(cast(:xid as text) as xid8), cast(:position as bigint))
       and e.xid < pg_snapshot_xmin(pg_current_snapshot())
     order by e.xid, e.position limit :limit""")
RESTAMP = text("select afterturn.restamp()")
SKIP = text("select setval('afterturn.log_position_seq', nextval('afterturn.log_position_seq') + :many)")
#: Positions that a restore to a point in time leaves out: more than a lost time can have given.
LOST_POSITIONS = 1_000_000_000


@dataclass(frozen=True, slots=True, order=True)
class LogPosition:
    """A reader's place in the log: after this commit and this position."""

    xid: int = 0
    position: int = 0


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event of the log; `payload` is the whole CloudEvent."""

    place: LogPosition
    id: UUID
    payload: Mapping[str, Any] = field(repr=False)


async def is_log_of_cluster(connection: AsyncConnection) -> bool:
    """Return whether the log is stamped for this cluster; if not, it was restored from another."""
    return bool((await connection.execute(AT_HOME)).scalar())


async def read_events(connection: AsyncConnection, host: UUID, after: LogPosition, limit: int) -> list[LoggedEvent]:
    """Return the next events of a host after a place; later calls return later events only."""
    if not await is_log_of_cluster(connection):
        raise RestoredElsewhere
    arguments = {"host": host, "xid": str(after.xid), "position": after.position, "limit": limit}
    rows = await connection.execute(PAGE, arguments)
    return [LoggedEvent(LogPosition(row.xid, row.position), row.id, row.payload) for row in rows]


async def restamp_log(owner_url: str) -> int:
    """Stamp a restored log for this cluster; return how many events that were, 0 when it is stamped already.

    Appends wait meanwhile.
    """
    async with create_owner_engine(owner_url, poolclass=NullPool).begin() as connection:
        return int((await connection.execute(RESTAMP)).scalar_one())


async def skip_lost_positions(owner_url: str) -> int:
    """Advance a restored log beyond every position that lost events can have had; return the first new position.

    A base backup that is restored to a point in time keeps the cluster's identity and the meaning of its xids, but
    would issue the positions of the lost time again. After this call, no position that a reader still has is issued to
    another event.
    """
    async with create_owner_engine(owner_url, poolclass=NullPool).begin() as connection:
        return int((await connection.execute(SKIP, {"many": LOST_POSITIONS})).scalar_one())
