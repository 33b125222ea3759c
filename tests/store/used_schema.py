"""What code uses of the schema: tables and types with their columns, and the functions whose names its modules know.

The record (`used_schema.txt`) is of the oldest code that this schema serves (`migrations.oldest_code`). It is written
anew, by `python -m tests.store.used_schema`, when a revision raises that, and at the first release.
"""

import asyncio
import re
import tempfile
from functools import lru_cache
from pathlib import Path

from sqlalchemy import NullPool, text
from sqlalchemy.ext.asyncio import AsyncConnection

from deploy.local import EmbeddedPostgres
from store import migrations
from store.connections import create_owner_engine

RECORD = Path(__file__).with_name("used_schema.txt")
ROOT = Path(__file__).parents[2]
PACKAGES = ("store", "workers", "producers", "deploy")

TABLES = text("""
    select format('table %s.%s', n.nspname, c.relname)
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where c.relkind in ('r', 'p', 'v', 'c') and not c.relispartition
       and (n.nspname in ('afterturn', 'hindsight') or n.nspname = 'public' and c.relname like 'afterturn\\_%')
     union all
    select format('column %s.%s %s %s%s', n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
                  case when c.relkind = 'c' or a.attnotnull and not a.atthasdef and a.attidentity = ''
                       then ' required' else '' end)
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     where c.relkind in ('r', 'p', 'v', 'c') and not c.relispartition and c.relname !~ '^unit_vector_\\d+$'
       and (n.nspname in ('afterturn', 'hindsight') or n.nspname = 'public' and c.relname like 'afterturn\\_%')""")
FUNCTIONS = text("""
    select p.proname as name,
           format('function afterturn %s(%s) %s', p.proname, pg_get_function_identity_arguments(p.oid),
                  pg_get_function_result(p.oid)) as line
      from pg_proc p where p.pronamespace = 'afterturn'::regnamespace""")


async def read_used_schema(connection: AsyncConnection) -> set[str]:
    """Return a line for each table, each column and each function that this code names."""
    lines = {str(line) for line in await connection.scalars(TABLES)}
    return lines | {row.line for row in await connection.execute(FUNCTIONS) if row.name in _list_words()}


@lru_cache(maxsize=1)
def _list_words() -> frozenset[str]:
    """Return every word of the modules: a function that none of them names is called by other functions alone."""
    sources = (path.read_text(encoding="utf-8") for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return frozenset(word for source in sources for word in re.findall(r"[a-z_]{4,}", source))


async def _read(owner_url: str) -> set[str]:
    engine = create_owner_engine(owner_url, poolclass=NullPool)
    async with engine.connect() as connection:
        found = await read_used_schema(connection)
    await engine.dispose()
    return found


def record() -> None:
    """Write the record by a database of its own."""
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedPostgres(Path(folder), durable=False)
        try:
            owner = server.start().owner_url
            migrations.upgrade_schema(owner)
            RECORD.write_text("".join(f"{line}\n" for line in sorted(asyncio.run(_read(owner)))), encoding="utf-8")
        finally:
            server.stop()
            server.cluster.remove()


if __name__ == "__main__":
    record()
