"""Runs the migrations over asyncpg, under a lock, and installs the functions after them."""

import asyncio
from pathlib import Path

from alembic import context
from sqlalchemy import Connection
from sqlalchemy.pool import NullPool

from store.connections import create_owner_engine
from store.migrations.scripts import run_script

FUNCTIONS = Path(__file__).parent.parent / "sql"
#: Starters that arrive together wait here for the first one.
MIGRATION_LOCK = 7_305_412_208_117


def _migrate(connection: Connection) -> None:
    connection.exec_driver_sql(f"select pg_advisory_xact_lock({MIGRATION_LOCK})")
    context.configure(connection=connection, version_table="afterturn_version", version_table_schema="public")
    with context.begin_transaction():
        context.run_migrations()
    for script in sorted(FUNCTIONS.glob("*.sql")):
        run_script(connection, script.read_text(encoding="utf-8"))


async def _run() -> None:
    url = context.config.attributes["url"]
    engine = create_owner_engine(url, poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.run_sync(_migrate)
    await engine.dispose()


asyncio.run(_run())
