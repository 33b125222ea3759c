"""The pools: who asks is never given what another one broke off, nor a connection that the server has closed."""

import asyncio
from contextlib import suppress
from typing import Any
from uuid import UUID, uuid4

import pytest
from asyncpg.exceptions import PostgresError
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from store.database import NO_SETTINGS, NO_SYNC, ONE_PLAN, Database, count_as_background
from store.database_outage import is_outage, state_of
from tests.patience import until
from tests.servers import TestPostgres
from tests.store.conftest import new_host, rows, settings_of

WHO = "select pg_backend_pid()"
SETTINGS = (
    "select current_setting('afterturn.host'), current_setting('afterturn.user'), current_setting('afterturn.agent'), "
    "current_setting('afterturn.granted')"
)
ASLEEP = "select exists (select from pg_stat_activity where pid = $1 and wait_event = 'PgSleep')"
# A machine on which another process costs nothing.
CHEAP_WORKERS = (
    "set local parallel_setup_cost = 0",
    "set local parallel_tuple_cost = 0",
    "set local min_parallel_table_scan_size = 0",
)


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


async def test_a_transaction_that_is_cancelled_is_undone_and_gives_its_connection_back(
    database: Database, lonely: Database
) -> None:
    pid, host = await who(lonely), await new_host(lonely)

    async def write_and_sleep() -> None:
        async with lonely.tenant(host) as connection:
            await connection.execute(text("insert into afterturn.bank_statistics_t values (:h, :h, 1, 1)"), {"h": host})
            await connection.execute(text("select pg_sleep(600)"))

    async def asleep() -> bool:
        return bool((await database.fetch(ASLEEP, pid))[0][0])

    writing = asyncio.create_task(write_and_sleep())
    await until(asleep, "the transaction is under way")
    writing.cancel()
    with suppress(asyncio.CancelledError):
        await writing
    assert await rows(lonely, host, "select count(*) from bank_statistics_t") == [(0,)]
    assert lonely._app.sync_engine.pool.checkedout() == 0  # type: ignore[attr-defined] # a QueuePool counts what is lent


async def test_a_transaction_whose_connection_is_lost_is_an_outage_and_the_next_one_goes_well(
    database: Database, lonely: Database
) -> None:
    with pytest.raises(DBAPIError) as raised:
        async with lonely.tenant(uuid4()) as connection:
            pid = (await connection.execute(text(WHO))).scalar_one()
            await database.fetch("select pg_terminate_backend($1)", pid)
            await connection.execute(text("select pg_sleep(600)"))
    assert is_outage(raised.value)
    assert await who(lonely) != pid


async def test_a_transaction_opens_in_one_round_trip_and_leaves_no_setting_behind(lonely: Database) -> None:
    host, said = uuid4(), list[str]()
    async with lonely.call() as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection
    driver.add_query_logger(lambda record: said.append(record.query))
    async with lonely.scoped(host, None, host) as connection:
        assert (await connection.execute(text(SETTINGS))).one() == (str(host), "", str(host), "")
    opened, ended = said  # the driver's log has what no statement was prepared for
    assert (opened.count("set local"), ended) == (4, "commit")
    [after] = await lonely.fetch(SETTINGS)
    assert not any(after)


async def test_a_transaction_that_is_to_be_undone_leaves_nothing(lonely: Database) -> None:
    host = await new_host(lonely)
    async with lonely.tenant(host, undo=True) as connection:
        await connection.execute(text("insert into afterturn.bank_statistics_t values (:h, :h, 1, 1)"), {"h": host})
    assert await rows(lonely, host, "select count(*) from bank_statistics_t") == [(0,)]


async def test_a_call_the_server_refuses_raises_what_it_said_and_keeps_the_connection(
    lonely: Database,
) -> None:
    pid = await who(lonely)
    with pytest.raises(PostgresError) as raised:
        await lonely.fetch("select 1 / (1 - $1::int)", 1)
    assert state_of(raised.value) == "22012"
    assert await who(lonely) == pid


async def test_a_server_that_lets_nobody_in_is_told_as_the_driver_tells_it(fresh_database: TestPostgres) -> None:
    nowhere = Database(settings_of(fresh_database.named("nowhere")))
    with pytest.raises(PostgresError) as raised:
        await nowhere.fetch(WHO)
    assert state_of(raised.value) == "3D000"
    await nowhere.close()


async def test_a_connection_that_is_closed_as_soon_as_it_is_open_is_an_outage(fresh_database: TestPostgres) -> None:
    async def close(connection: Any) -> None:
        await connection.close()

    database = Database(settings_of(fresh_database), close)
    for _ in range(2):
        with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever it is, it must be known for an outage
            await database.fetch(WHO)
        assert is_outage(raised.value)
        with pytest.raises(Exception) as raised:  # noqa: PT011 - as above
            await rows(database, uuid4(), WHO)
        assert is_outage(raised.value)
    await database.close()


async def test_no_process_is_begun_for_a_statement_that_is_planned_once(lonely: Database) -> None:
    host, began = await new_host(lonely), list[bool]()
    for settings in (NO_SETTINGS, ONE_PLAN, NO_SYNC):
        async with lonely.tenant(host, settings) as connection:
            for cheap in CHEAP_WORKERS:
                await connection.exec_driver_sql(cheap)
            plan = await connection.exec_driver_sql("explain select count(*) from afterturn.unit_vector_t")
            began.append("Workers Planned" in "\n".join(line for (line,) in plan))
    assert began == [True, False, False]


async def test_calls_are_counted_but_for_those_of_the_background(lonely: Database, host: UUID) -> None:
    async def call() -> int:
        before = lonely.calls
        await lonely.fetch(WHO)
        async with lonely.tenant(host), lonely.call():
            return lonely.calls - before

    assert await call() == 3
    with count_as_background():
        assert await call() == 0
    assert await call() == 3
