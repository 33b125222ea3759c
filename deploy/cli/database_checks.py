"""What a PostgreSQL lacks before the service can run on it, and what to do about it."""

from typing import Any

from asyncpg.exceptions import PostgresError
from sqlalchemy import NullPool, TextClause, text
from sqlalchemy.exc import SQLAlchemyError

from store.connections import NAMELESS, create_engine
from store.database_outage import state_of

#: For a connection and an answer, each, in seconds.
PATIENCE_S = 5.0
EXTENSION_SQL = "create extension vector;"

#: What the classes of SQLSTATE mean that a server refuses a login with; it will not change its mind by itself.
REFUSALS = {
    "28": "the database refuses the login of database.url: run `afterturn db init`, or check its user and password",
    "3D": "the server has no database of the name in database.url: make it, then run `afterturn db init`",
}

READY = text("""
    select exists (select from pg_extension where extname = 'vector') as has_vector,
           exists (select from pg_namespace where nspname = 'afterturn') as has_schema""")


async def find_schema_problem(url: str) -> str | None:
    """Return why the service cannot begin on a database that answers; it waits for one that does not."""
    try:
        row = await read_row(url, READY)
    except (SQLAlchemyError, PostgresError, OSError, TimeoutError) as error:
        return REFUSALS.get(state_of(error)[:2])
    if not row.has_vector:
        return f"the database has no pgvector: an administrator must run in it: {EXTENSION_SQL}"
    return None if row.has_schema else "the database has no schema yet: run `afterturn db migrate`"


async def read_row(url: str, question: TextClause) -> Any:
    """Return the one row that a question is answered with, over a connection of its own.

    Raises SQLAlchemyError, OSError or TimeoutError where the database does not answer.
    """
    engine = create_engine(url, timeout_s=PATIENCE_S, driver=NAMELESS, poolclass=NullPool)
    try:
        async with engine.connect() as connection:
            return (await connection.execute(question)).one()
    finally:
        await engine.dispose()
