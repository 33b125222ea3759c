"""Everything a database holds as text: every row of every lasting table, and what the planner sampled."""

import re

from sqlalchemy import NullPool, text
from sqlalchemy.ext.asyncio import create_async_engine

from tests.servers import TestPostgres

TABLES = """
    select format('%I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where c.relkind in ('r', 'm') and c.relpersistence <> 't'
       and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
     union all select 'pg_catalog.pg_stats'"""

#: A gateway key, encrypted: random letters, among which a short word may stand.
CIPHERTEXT = re.compile(r"gAAAAA[\w-]+=*")


async def dump(postgres: TestPostgres) -> str:
    """Return all of it; values are shown whole, out-of-line ones too."""
    engine = create_async_engine(postgres.superuser_url, poolclass=NullPool)
    found: list[str] = []
    async with engine.connect() as connection:
        for table in list((await connection.execute(text(TABLES))).scalars()):
            rows = (await connection.execute(text(f"select cast(t as text) from {table} t"))).scalars()
            found += [f"{table} {row}" for row in rows]
    await engine.dispose()
    return "\n".join(found)


def rows_of(dumped: str) -> list[str]:
    """Return the rows without what the planner sampled: that changes whenever the server finds time for it."""
    return [line for line in dumped.split("\n") if not line.startswith("pg_catalog.pg_stats ")]


def lines_with(dumped: str, *words: str) -> list[str]:
    """Return the rows that hold one of these words, in any case."""
    lines = CIPHERTEXT.sub("", dumped).split("\n")
    return [line[:300] for line in lines if any(word.lower() in line.lower() for word in words)]
