"""The pools: who asks is never given what another one broke off, nor a connection that the server has closed."""

import asyncio
from contextlib import suppress
from typing import Any
from uuid import UUID, uuid4

import pytest
from asyncpg.exceptions import PostgresError
from sqlalchemy import text

from store.database import Database
from store.outage import state_of
from tests.patience import until
from tests.store.conftest import rows

WHO = "select pg_backend_pid()"
ASLEEP = "select exists (select from pg_stat_activity where pid = $1 and wait_event = 'PgSleep')"


async def who(database: Database) -> int:
    [(pid,)] = await database.fetch(WHO)
    return int(pid)


async def test_who_asks_after_the_server_closed_every_connection_is_answered(
    database: Database, lonely: Database
) -> None:
    async with lonely.call() as one, lonely.call() as other:
        drivers: list[Any] = [(await lent.get_raw_connection()).driver_connection for lent in (one, other)]
        pids = [(await lent.execute(text(WHO))).scalar_one() for lent in (one, other)]
    await database.fetch("select pg_terminate_backend(p) from unnest($1::int[]) p", pids)
    await until(lambda: all(driver.is_closed() for driver in drivers), "the driver knows that it was left")
    assert await who(lonely) not in pids
    assert await rows(lonely, uuid4(), "select pg_backend_pid() = any (:pids)", pids=pids) == [(False,)]


async def test_a_call_that_is_cancelled_leaves_its_connection_to_nobody(database: Database, lonely: Database) -> None:
    pid = await who(lonely)
    asking = asyncio.create_task(lonely.fetch("select pg_sleep(600)"))

    async def asleep() -> bool:
        return bool((await database.fetch(ASLEEP, pid))[0][0])

    await until(asleep, "the call is under way")
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking
    assert await who(lonely) != pid
    assert lonely._app.sync_engine.pool.checkedout() == 0  # type: ignore[attr-defined] # a QueuePool counts what is lent


async def test_a_call_the_server_refuses_raises_what_it_said_and_keeps_the_connection(
    lonely: Database,
) -> None:
    pid = await who(lonely)
    with pytest.raises(PostgresError) as raised:
        await lonely.fetch("select 1 / (1 - $1::int)", 1)
    assert state_of(raised.value) == "22012"
    assert await who(lonely) == pid


async def test_a_call_that_names_no_tenant_reads_nothing(database: Database, host: UUID) -> None:
    with pytest.raises(PostgresError):
        await database.fetch("select count(*) from afterturn.turn_t where host_id = $1", host)
