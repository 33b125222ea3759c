"""Calling SQL functions by name, as each role does."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest_asyncio
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.connections import create_owner_engine
from store.database import Database
from tests.servers import TestPostgres
from tests.store.conftest import rows


async def value(database: Database, host: UUID, query: str, /, **arguments: object) -> Any:
    """Run a query as the tenant and return its one value."""
    [(found,)] = await rows(database, host, query, **arguments)
    return found


async def as_operator(database: Database, query: str, /, **arguments: object) -> list[tuple[Any, ...]]:
    """Run a query as the operator and return plain tuples."""
    async with database.operator() as connection:
        return [tuple(row) for row in await connection.execute(text(query), arguments)]


@pytest_asyncio.fixture(loop_scope="session")
async def owner(fresh_database: TestPostgres) -> AsyncIterator[AsyncConnection]:
    """A transaction of the role that owns the tables, which sees every tenant's rows; it is rolled back."""
    engine = create_owner_engine(
        fresh_database.owner_url, driver={"server_settings": {"search_path": "afterturn,public"}}
    )
    async with engine.connect() as connection:
        yield connection
        await connection.rollback()
    await engine.dispose()


async def by_owner(owner: AsyncConnection, query: str, /, **arguments: object) -> list[tuple[Any, ...]]:
    """Run a statement in the owner's transaction and return plain tuples."""
    found = await owner.execute(text(query), arguments)
    return [tuple(row) for row in found] if found.returns_rows else []
