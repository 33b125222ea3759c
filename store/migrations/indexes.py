"""Builds the indexes that the schema declares and the database lacks, concurrently, after a migration.

Within the migration's transaction, an index on a large table would block its writes for minutes.
"""

from sqlalchemy import Connection, Index, text
from sqlalchemy.schema import CreateIndex

from store.schema import METADATA

#: Indexes by name, and whether each is valid: one whose build was interrupted is not.
FIND = text("""
    select c.relname, x.indisvalid from pg_index x
      join pg_class c on c.oid = x.indexrelid
      join pg_namespace n on n.oid = c.relnamespace and n.nspname in ('afterturn', 'public')""")


def build_missing_indexes(connection: Connection) -> None:
    """Build the declared indexes that are missing or invalid, one after the other; the connection is in AUTOCOMMIT."""
    valid = {row.relname: row.indisvalid for row in connection.execute(FIND)}
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
