"""A database with the platform's own memory tables, as agents of light-portal have it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import asyncpg

from tests.servers import TestPostgres

TABLES = Path(__file__).with_suffix(".sql")


@asynccontextmanager
async def platform_database(server: TestPostgres) -> AsyncIterator[str]:
    """Make such a database for as long as the block lasts; its URL (postgresql://)."""
    database = await server.create(f"platform_{uuid4().hex}", template="template0")
    url = database.superuser_url.replace("+asyncpg", "")
    connection = await asyncpg.connect(url)  # type: ignore[no-untyped-call]  # asyncpg leaves it without
    await connection.execute(TABLES.read_text())
    await connection.close()
    yield url
    await database.drop()


#: Rows that each bank of `fill_platform` has, over all tables but the counted one.
ROWS_OF_BANK = 381


async def fill_platform(url: str, banks: int) -> None:
    """Write rows of every table, as agents did: `banks` banks of one host."""
    connection = await asyncpg.connect(url)  # type: ignore[no-untyped-call]  # asyncpg leaves it without
    rows = Path(__file__).with_name("seed_rows.sql").read_text()
    await connection.execute(rows.replace(":banks", str(banks)))
    await connection.close()
