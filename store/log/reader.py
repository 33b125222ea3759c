"""What a reader of the log needs that follows it in the order of its commits, without gaps, and keeps a checkpoint.

A position is drawn before its transaction commits, so a higher one may be seen first. Readers therefore follow
(xid, position) and stop below the oldest transaction that still runs. A checkpoint is written in the transaction that
writes the events' effects, so each event takes effect once. Source: Emmett's reading rule.
"""

from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.pool import NullPool

from store.connections import create_owner_engine

AT_HOME = text("""
    select c.system_identifier = s.system_identifier from public.afterturn_cluster c, pg_control_system() s""")
OPEN = text("insert into afterturn.subscription_t values (:host, :name, '0', 0) on conflict do nothing")
# One reader of a subscription at a time: the others wait here and continue after its checkpoint.
HOLD = text("""
    select cast(cast(xid as text) as bigint) as xid, position from afterturn.subscription_t
     where host_id = :host and name = :name for update""")
ADVANCE = text("""
    update afterturn.subscription_t set xid = cast(cast(:xid as text) as xid8), position = :position
     where host_id = :host and name = :name""")
RESTAMP = text("select afterturn.restamp()")
SKIP = text("select setval('afterturn.log_position_seq', nextval('afterturn.log_position_seq') + :many)")
#: Positions that a restore to a point in time leaves out: more than a lost time can have given.
LOST_POSITIONS = 1_000_000_000


@dataclass(frozen=True, slots=True, order=True)
class LogPosition:
    """A reader's place in the log: after this commit and this position."""

    xid: int = 0
    position: int = 0


async def is_log_of_cluster(connection: AsyncConnection) -> bool:
    """Return whether the log is stamped for this cluster; if not, it was restored from another."""
    return bool((await connection.execute(AT_HOME)).scalar())


async def restamp_log(owner_url: str) -> int:
    """Stamp a restored log for this cluster; return how many events that were, 0 when it is stamped already.

    Appends wait meanwhile. Every subscription goes on exactly where it was.
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
