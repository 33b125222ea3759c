"""Runs the migrations over asyncpg, under a lock, installs the functions, and builds the indexes that are missing."""

import asyncio
import time
from collections.abc import Sequence

import orjson
from alembic import context
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, Index, text
from sqlalchemy.pool import NullPool
from sqlalchemy.schema import CreateIndex

from store.connections import create_owner_engine
from store.errors import FormerRevision, UnknownRevision
from store.ledger.stages import describe_stages
from store.log.catalog import describe_registry
from store.migrations import FOLDER, FUNCTIONS, REGISTRIES, list_revisions, newest_revision, oldest_code
from store.migrations.compatibility import LAST_FORMER, TABLE_OF_LAST_FORMER, describe_former
from store.migrations.scripts import run_script
from store.schema import METADATA

SET_EVENTS = text("select afterturn.set_events(cast(:registry as jsonb))")
SET_VERSION = text("select afterturn.set_schema_version(:revision, :oldest_code)")
FIND_REVISION = text("select version_num from public.afterturn_version")
IS_COMPLETE = text("select to_regclass(:table) is not null")
SET_STAGES = text("select afterturn.set_stages(cast(:stages as jsonb))")
#: Indexes by name, and whether each is valid: one whose build was interrupted is not.
FIND_INDEXES = text("""
    select c.relname, x.indisvalid from pg_index x
      join pg_class c on c.oid = x.indexrelid
      join pg_namespace n on n.oid = c.relnamespace and n.nspname in ('afterturn', 'public')""")

#: Key of the advisory lock by which processes that start at the same time migrate one after the other.
MIGRATION_LOCK = 7_305_412_208_117
POLL_S = 0.05
TRY_LOCK = text("select pg_try_advisory_lock(:key)")


def _wait_for_turn(connection: Connection) -> None:
    """Take the migrations' lock for the session.

    It polls: a statement that waited for the lock would hold a snapshot, and `create index concurrently` waits for
    every snapshot.
    """
    while not connection.scalar(TRY_LOCK, {"key": MIGRATION_LOCK}):
        time.sleep(POLL_S)


def _migrate_schema(connection: Connection) -> None:
    context.configure(connection=connection, version_table="afterturn_version", version_table_schema="public")
    _refuse_former(context.get_context(), connection)
    _refuse_unknown(context.get_context())
    with context.begin_transaction():
        context.run_migrations()
    _run_scripts(connection, REGISTRIES)
    connection.execute(SET_VERSION, {"revision": newest_revision(), "oldest_code": oldest_code()})
    connection.execute(SET_STAGES, {"stages": orjson.dumps(describe_stages()).decode()})
    connection.execute(SET_EVENTS, {"registry": orjson.dumps(describe_registry()).decode()})
    _run_scripts(connection, FUNCTIONS)


def _run_scripts(connection: Connection, names: Sequence[str]) -> None:
    for name in names:
        run_script(connection, (FOLDER / f"{name}.sql").read_text(encoding="utf-8"))


def _refuse_former(found: MigrationContext, connection: Connection) -> None:
    """Raise FormerRevision for a database at a revision that became part of 0001, which is then left unchanged."""
    for revision in found.get_current_heads():
        is_complete = connection.scalar(IS_COMPLETE, {"table": TABLE_OF_LAST_FORMER})
        if revision == LAST_FORMER or (revision.startswith("0.1.0_") and not is_complete):
            raise FormerRevision(describe_former(revision))


def _refuse_unknown(found: MigrationContext) -> None:
    """Raise UnknownRevision where another version of the code migrated this database, which is then left unchanged."""
    if unknown := set(found.get_current_heads()) - set(list_revisions()):
        raise UnknownRevision(unknown.pop(), newest_revision())


def build_missing_indexes(connection: Connection) -> None:
    """Build the declared indexes that are missing or invalid, concurrently, one after the other.

    The connection is in AUTOCOMMIT: within the migration's transaction, an index on a large table would block its
    writes for minutes.
    """
    valid = {row.relname: row.indisvalid for row in connection.execute(FIND_INDEXES)}
    for table in METADATA.sorted_tables:
        for index in table.indexes:
            name = str(index.name)
            if valid.get(name) is False:
                connection.exec_driver_sql(f"drop index concurrently {table.schema}.{name}")
            if not valid.get(name):
                connection.exec_driver_sql(_describe_index(index, connection))


def _describe_index(index: Index, connection: Connection) -> str:
    """Return the statement that builds an index without blocking writes."""
    statement = str(CreateIndex(index).compile(connection, compile_kwargs={"literal_binds": True}))
    return statement.replace(" INDEX ", " INDEX CONCURRENTLY ", 1)


async def _run_migrations() -> None:
    url = context.config.attributes["url"]
    engine = create_owner_engine(url, poolclass=NullPool)
    async with engine.connect() as session:
        await session.execution_options(isolation_level="AUTOCOMMIT")
        await session.run_sync(_wait_for_turn)
        async with engine.begin() as connection:
            await connection.run_sync(_migrate_schema)
        if await session.scalar(FIND_REVISION) == newest_revision():
            await session.run_sync(build_missing_indexes)


asyncio.run(_run_migrations())
