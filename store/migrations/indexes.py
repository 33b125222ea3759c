"""Indexes that the schema declares and the database does not have yet: built after a migration, beside the service.

Built within its transaction, an index of a large table would keep every write waiting for minutes.
"""

from sqlalchemy import Connection, Index, text
from sqlalchemy.schema import CreateIndex

from store.schema import METADATA

#: Indexes by name, and whether each is whole: one whose building was cut off is not.
FIND = text("""
    select c.relname, x.indisvalid from pg_index x
      join pg_class c on c.oid = x.indexrelid
      join pg_namespace n on n.oid = c.relnamespace and n.nspname in ('afterturn', 'public')""")


def build_missing_indexes(connection: Connection) -> None:
    """Build what is declared and missing, or was cut off, one after the other; the connection is in AUTOCOMMIT."""
    whole = {row.relname: row.indisvalid for row in connection.execute(FIND)}
    for table in METADATA.sorted_tables:
        for index in table.indexes:
            name = str(index.name)
            if whole.get(name) is False:
                connection.exec_driver_sql(f"drop index concurrently {table.schema}.{name}")
            if not whole.get(name):
                connection.exec_driver_sql(_describe(index, connection))


def _describe(index: Index, connection: Connection) -> str:
    """Return the statement that builds an index without keeping writes waiting."""
    statement = str(CreateIndex(index).compile(connection, compile_kwargs={"literal_binds": True}))
    return statement.replace(" INDEX ", " INDEX CONCURRENTLY ", 1)
