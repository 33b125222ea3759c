"""Order of the log: nobody who reads it by (xid, position) sees a later version before an earlier one."""

import asyncio
from uuid import UUID

import pytest
from sqlalchemy import text

from store import identity
from store.database import Database
from store.memory.turns import Appended, TurnStore
from tests.store.conftest import NOON, blocked, rows, turn

LOCK_SESSION = text("select pg_advisory_xact_lock(afterturn.lock_key('session', :session))")
TAKE_XID = text("select pg_current_xact_id()")


@pytest.mark.law("L3")
async def test_a_writer_that_waits_for_its_session_has_written_nothing_before(
    turns: TurnStore, database: Database, host: UUID
) -> None:
    """The interleaving that broke: one transaction holds the session, a second starts and must wait, the first
    commits with the larger xid. Were the second one's xid taken before its wait, its later version would have the
    smaller xid and be read first."""
    await turns.append(host, [turn("t0")])
    session = identity.session_id(identity.bank_id(host, "home"), "s1")
    async with database.tenant(host) as holder:
        await holder.execute(LOCK_SESSION, {"session": session})
        waiting = asyncio.create_task(turns.append(host, [turn("t1")]))
        await blocked(database, host)
        await holder.execute(TAKE_XID)
        held_xid = int((await holder.execute(TAKE_XID)).scalar_one())
    [answer] = await waiting
    assert isinstance(answer, Appended)
    [(xid,)] = await rows(database, host, "select max(xid::text::bigint) from event_store_t")
    assert xid > held_xid


async def test_xids_and_positions_of_a_session_rise_together(database: Database, host: UUID) -> None:
    stores = [TurnStore(database, lambda: NOON) for _ in range(20)]
    await asyncio.gather(*(store.append(host, [turn(f"t{n}")]) for n, store in enumerate(stores)))
    found = await rows(
        database,
        host,
        "select aggregate_version from event_store_t where aggregate_type = 'AgentSessionHistory' "
        "order by xid, position",
    )
    assert [version for (version,) in found] == list(range(1, 22))
