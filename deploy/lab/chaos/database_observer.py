"""Reads the stack's database with the owner's role; tolerates outages."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import Row, TextClause
from sqlalchemy.ext.asyncio import AsyncEngine

from store.connections import create_owner_engine
from store.database_outage import is_outage

CONNECT_SECONDS = 5
RETRY_SECONDS = 0.2


class DatabaseGone(Exception):
    """The stack's database did not answer again in time."""


class DatabaseObserver:
    """Queries a database despite outages."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def try_query(
        self, query: TextClause, arguments: Mapping[str, Any] | None = None
    ) -> Sequence[Row[Any]] | None:
        """Run a query (or a statement, which is committed); return its rows, None while the server is unavailable."""
        try:
            async with self._engine.begin() as connection:
                return (await connection.execute(query, arguments or {})).all()
        except Exception as error:
            if is_outage(error):
                return None
            raise

    async def query(
        self, query: TextClause, arguments: Mapping[str, Any] | None = None, seconds: float = 60.0
    ) -> Sequence[Row[Any]]:
        """Run a query as soon as the server is available, and return its rows. Raises DatabaseGone after `seconds`."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if (rows := await self.try_query(query, arguments)) is not None:
                return rows
            await asyncio.sleep(RETRY_SECONDS)
        raise DatabaseGone("the stack's database does not answer")


@asynccontextmanager
async def open_observer(owner_url: str) -> AsyncIterator[DatabaseObserver]:
    """Yield an observer of a database."""
    engine = create_owner_engine(
        owner_url, timeout_s=CONNECT_SECONDS, driver={"command_timeout": 120}, pool_size=2, pool_pre_ping=True
    )
    try:
        yield DatabaseObserver(engine)
    finally:
        await engine.dispose()
