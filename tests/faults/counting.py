"""Counting what a stack holds, straight from its database."""

import asyncio

from sqlalchemy import NullPool, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import create_async_engine

from deploy.stack import Stack


def ask(stack: Stack, query: str) -> int | None:
    """Run one counting query as the owner, who sees every host; None while the server is down."""
    return asyncio.run(_ask(stack.owner_url.get_secret_value(), query))


async def _ask(url: str, query: str) -> int | None:
    engine = create_async_engine(url, poolclass=NullPool, connect_args={"ssl": False, "timeout": 5})
    try:
        async with engine.connect() as connection:
            found: int | None = (await connection.execute(text(query))).scalar()
            return found
    except (OSError, SQLAlchemyError):
        return None
    finally:
        await engine.dispose()


def count(stack: Stack, query: str) -> int:
    """Run one counting query on a server that is up."""
    found = ask(stack, query)
    assert found is not None
    return found
