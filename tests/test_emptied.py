"""A database that served a test is for the next one as the migrations left it, or another one."""

from collections.abc import AsyncIterator

import asyncpg
import pytest_asyncio
from sqlalchemy.ext.asyncio import AsyncConnection

from store.ledger.stages import Stage
from tests.emptied import Kept, Lender
from tests.servers import TestPostgres, TestValkey
from tests.tables import each_row
from tests.workers.conftest import World, open_world

STATISTICS = """
    select c.relname, c.reltuples, s.staattnum, cast(s as text)
      from pg_class c left join pg_statistic s on starelid = c.oid
     where c.relnamespace = 'afterturn'::regnamespace order by 1, 3"""
FILLED = (
    "insert into afterturn.host_t (host_id, name) select gen_random_uuid(), repeat('x', 90) || n from generate_series"
)


@pytest_asyncio.fixture(loop_scope="session")
async def own(servers: tuple[TestPostgres, TestValkey], administrator: AsyncConnection) -> AsyncIterator[Lender]:
    """A lender of this test alone."""
    own = Lender(servers[0], administrator)
    yield own
    await own.close()


async def use(kept: Kept) -> tuple[World, int]:
    world = await open_world(kept.postgres)
    return world, (await world.append()).position


async def test_the_next_test_finds_nothing_of_the_one_before_and_its_open_sessions(own: Lender) -> None:
    kept = await own.lend()
    world, position = await use(kept)
    [session] = await world.sql("select pg_backend_pid()")
    await world.database.close()
    own.take_back(kept)
    assert await own.lend() is kept
    again = await open_world(kept.postgres)
    assert await again.statuses(Stage.EXTRACTION) == []
    assert await again.sql("select from afterturn.event_store_t") == []
    assert await again.sql("select pg_backend_pid()") == [session]
    assert (await again.append()).position == position
    own.take_back(kept)


@each_row(
    "statement",
    [
        "create table afterturn.later_t ()",
        "create or replace function afterturn.log_lock() returns bigint language sql as 'select 1::bigint'",
        "alter table afterturn.ledger_t alter column stage set statistics 7",
        "truncate afterturn.ledger_t",
        "delete from public.afterturn_version",
        f"{FILLED}(1, 20000) n",
    ],
)
async def test_what_is_not_as_it_was_serves_no_other(own: Lender, statement: str) -> None:
    kept = await own.lend()
    world, _ = await use(kept)
    await world.sql(statement)
    own.take_back(kept)
    other = await own.lend()
    assert other is not kept
    own.take_back(other)


async def test_the_next_test_finds_the_statistics_that_the_migrations_left(own: Lender) -> None:
    kept = await own.lend()
    world = await open_world(kept.postgres)
    await world.sql("delete from afterturn.host_t")
    found = await world.sql(STATISTICS)
    await use(kept)
    await world.sql("analyze")
    assert await world.sql(STATISTICS) != found
    own.take_back(kept)
    assert await own.lend() is kept
    assert await world.sql(STATISTICS) == found
    own.take_back(kept)


async def test_a_session_that_a_test_left_ends_with_the_database(own: Lender) -> None:
    kept = await own.lend()
    left = await asyncpg.connect(kept.postgres.superuser_url.replace("+asyncpg", ""), ssl=False)  # type: ignore[no-untyped-call]  # asyncpg leaves it without
    own.take_back(kept)
    other = await own.lend()
    assert other is not kept
    own.take_back(other)
    left.terminate()


async def test_a_transaction_that_a_test_left_open_does_too(own: Lender) -> None:
    kept = await own.lend()
    world, _ = await use(kept)
    async with world.database.operator():
        own.take_back(kept)
        other = await own.lend()
    assert other is not kept
    own.take_back(other)
