"""Removes whole tenants of checks and benchmarks, with the owner's role."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import TableClause, Uuid, column, delete, table, text
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import NullPool

from embeddings.retry import Retry, wait_evenly
from store.connections import create_owner_engine
from store.database_outage import DEADLOCK, retry_after_states

TABLES = text("""
    select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
      join pg_attribute a on a.attrelid = c.oid and a.attname = 'host_id' and not a.attisdropped
     where n.nspname = 'afterturn' and c.relkind in ('r', 'p') and not c.relispartition order by 1""")
#: Tables deleted first, with the workers' claims: without a claim, a worker's changes are rolled back.
CLAIMS = ("claim_t", "ledger_t", "recall_job_t")
#: Retries of a deletion after a deadlock with workers.
EMPTY_AGAIN = Retry(wait_evenly(0.25), attempts=20)
#: Banks first, whose rows are deleted with them; hosts last, since all rows refer to them.
LAST = ("agent_memory_bank_t", "host_t")


async def remove_hosts(owner_url: str, hosts: Sequence[UUID]) -> None:
    """Delete every row of these hosts; their running work is fenced."""
    engine = create_owner_engine(owner_url, poolclass=NullPool)
    async with engine.connect() as connection:
        tables = [str(row[0]) for row in await connection.execute(TABLES)]
    await _empty_tables(engine, [table for table in CLAIMS if table in tables], hosts)
    await _empty_tables(engine, [*(table for table in tables if table not in LAST), *LAST], hosts)


def tenant_table(name: str) -> TableClause:
    """Return a table of the catalog with the column that every table of tenants has; partitions are not declared."""
    return table(name, column("host_id", Uuid), schema="afterturn")


async def _empty_tables(engine: AsyncEngine, tables: Sequence[str], hosts: Sequence[UUID]) -> None:
    """Delete these hosts' rows in one transaction. A worker that locks the same rows in another order may win."""

    async def empty() -> None:
        async with engine.begin() as connection:
            for name in tables:
                rows = tenant_table(name)
                await connection.execute(delete(rows).where(rows.c.host_id.in_(hosts)))

    await EMPTY_AGAIN.call(empty, retry_after_states(DEADLOCK))
