"""Checks whether a database's schema fits this version, and says what to do when it does not."""

from typing import Any

from asyncpg.exceptions import PostgresError
from sqlalchemy import NullPool, TextClause, text
from sqlalchemy.exc import SQLAlchemyError

from store import migrations
from store.connections import NAMELESS, create_engine
from store.database_outage import state_of
from store.migrations.compatibility import (
    LAST_FORMER,
    TABLE_OF_LAST_FORMER,
    SchemaRelation,
    SchemaVersion,
    compare_schema,
    describe_former,
    describe_problem,
)

#: Time-out of a connection, and of an answer, in seconds.
PATIENCE_S = 5.0
EXTENSION_SQL = "create extension vector;"

#: Messages for the SQLSTATE classes of refused logins, which do not pass by themselves.
REFUSALS = {
    "28": "the database refuses the login of database.url: run `afterturn db init`, or check its user and password",
    "3D": "the server has no database of the name in database.url: make it, then run `afterturn db init`",
}

READY = text("""
    select exists (select from pg_extension where extname = 'vector') as has_vector,
           exists (select from pg_namespace where nspname = 'afterturn') as has_schema""")
TELLS_VERSION = text("select to_regprocedure('afterturn.schema_version()') is not null as tells")
VERSION = text("""
    select revision, oldest_code, revision = :last or to_regclass(:table) is null as is_former
      from afterturn.schema_version()""").bindparams(last=LAST_FORMER, table=TABLE_OF_LAST_FORMER)


async def find_schema_problem(url: str) -> str | None:
    """Return why the service cannot start on this database; None also when the database does not answer.

    The service waits for a database that does not answer.
    """
    try:
        row = await read_row(url, READY)
        found = await read_schema_version(url) if row.has_schema else None
    except (SQLAlchemyError, PostgresError, OSError, TimeoutError) as error:
        return REFUSALS.get(state_of(error)[:2])
    if not row.has_vector:
        return f"the database has no pgvector: an administrator must run in it: {EXTENSION_SQL}"
    if not row.has_schema:
        return "the database has no schema yet: run `afterturn db migrate`"
    if found is None:
        return "the schema was made before the first release: run `afterturn db migrate`"
    return describe_problem(compare_schema(found, migrations.list_revisions()), found, migrations.newest_revision())


async def read_schema_version(url: str) -> SchemaVersion | None:
    """Return the version that the schema reports; None for a schema from before the first release.

    Raises as `read_row` does.
    """
    if not (await read_row(url, TELLS_VERSION)).tells:
        return None
    return SchemaVersion(*await read_row(url, VERSION))


def judge_revision(revision: str | None, told: SchemaVersion | None) -> str | None:
    """Return what to do about a schema's revision; None when this code can use it: current, or newer and compatible.

    `told` is the version that the schema reports; it is ignored when it is of another revision.
    """
    oldest_code = told.oldest_code if told and told.revision == revision else ""
    version = SchemaVersion(revision or "", oldest_code, is_former=told is not None and told.is_former)
    relation = compare_schema(version, migrations.list_revisions())
    if relation is SchemaRelation.FORMER:
        return describe_former(version.revision)
    if revision is not None and relation is SchemaRelation.TOO_NEW:
        return "newer code migrated it, which does not serve this version: run that of the newest process"
    return None if relation in {SchemaRelation.CURRENT, SchemaRelation.NEWER} else "run `afterturn db migrate`"


async def read_row(url: str, question: TextClause) -> Any:
    """Return the single row of a query, over a connection of its own.

    Raises SQLAlchemyError, OSError or TimeoutError when the database does not answer.
    """
    async with create_engine(url, timeout_s=PATIENCE_S, driver=NAMELESS, poolclass=NullPool).connect() as connection:
        return (await connection.execute(question)).one()
