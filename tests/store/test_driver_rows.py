"""Rows asked of the driver itself: as SQLAlchemy's for who reads them, with the errors of a transaction."""

from uuid import UUID

import pytest
from asyncpg.exceptions import PostgresError
from sqlalchemy import text

from store.database import Database
from store.database_outage import state_of
from store.driver_rows import fetch_rows
from store.errors import StatementTimeout

ROWS = text("""
    select n as number, cast(:word as text) || n as told from generate_series(1, cast(:most as int)) n
     where cast(:word as text) <> ''""")


async def test_columns_are_attributes_and_values_beyond_the_parameters_are_left_out(
    database: Database, host: UUID
) -> None:
    async with database.tenant(host) as connection:
        rows = await fetch_rows(connection, ROWS, {"word": "a", "most": 2, "more": object()})
    assert [(row.number, row.told) for row in rows] == [(1, "a1"), (2, "a2")]
    assert [tuple(row) for row in rows] == [(1, "a1"), (2, "a2")]
    with pytest.raises(AttributeError):
        _ = rows[0].nothing


async def test_a_statement_that_takes_too_long_is_a_timeout(database: Database, host: UUID) -> None:
    with pytest.raises(StatementTimeout):
        async with database.tenant(host, {"statement_timeout": "20ms"}) as connection:
            await fetch_rows(connection, text("select pg_sleep(60)"), {})


async def test_an_error_of_the_server_is_raised_and_ends_the_transaction(lonely: Database, host: UUID) -> None:
    with pytest.raises(PostgresError) as raised:
        async with lonely.tenant(host) as connection:
            await fetch_rows(connection, text("select 1 / cast(:no as int)"), {"no": 0})
    assert state_of(raised.value) == "22012"
    async with lonely.tenant(host) as connection:
        assert len(await fetch_rows(connection, ROWS, {"word": "a", "most": 1})) == 1
