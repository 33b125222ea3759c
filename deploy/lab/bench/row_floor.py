"""Measures the floor of the stages' writes: the same rows by COPY, one statement per table.

The current rows that the stages wrote for a host are read and copied into tables of the benchmark: each has the
indexes, checks and foreign keys of the original, but no row-level security, under which PostgreSQL refuses COPY. The
ledger and its claims, the stages' own book-keeping, are left out.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pgvector.asyncpg import register_vector
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from deploy.lab.bench.bench_database import BenchDatabase
from deploy.lab.bench.floors import COLUMNS
from deploy.lab.bench.usage import read_cpu_seconds

#: Tables that are not copied: book-keeping, and rows that exist from the beginning of a host.
LEFT_OUT = frozenset({"ledger_t", "claim_t", "host_t", "api_key_t", "quota_t", "gateway_target_t"})
#: Tables left out of bare writes; a write's ledger rows count.
NOT_OF_A_WRITE = LEFT_OUT - {"ledger_t"} | {"call_audit_t"}

# The id of the current transaction: rows written later have this xmin or a greater one.
CURRENT_TRANSACTION = text("select pg_current_xact_id()::text::bigint")
# The columns of a table as they are read: JSON as text, which the driver takes.
READ_COLUMNS = text("""
    select case atttypid when 'jsonb'::regtype then format('%1$I::text as %1$I', attname) else quote_ident(attname) end
      from pg_attribute
     where attrelid = cast('afterturn.' || :table as regclass) and attnum > 0 and not attisdropped and attgenerated = ''
     order by attnum""")
# The foreign keys of a table, which `create table ... (like ...)` does not copy.
FOREIGN_KEYS = text("""
    select pg_get_constraintdef(oid) from pg_constraint
     where conrelid = cast('afterturn.' || :table as regclass) and contype = 'f'""")


@dataclass(frozen=True, slots=True)
class CopiedRows:
    """The processor seconds of COPY, in driver and server, and the number of rows in each table afterwards."""

    seconds: float
    rows: Mapping[str, int]


async def read_transaction_mark(ground: BenchDatabase) -> int:
    """Return a transaction id that separates existing rows from rows written later."""
    async with ground.owner.begin() as connection:
        return int((await connection.execute(CURRENT_TRANSACTION)).scalar_one())


async def copy_rows(ground: BenchDatabase, source: UUID, since: int) -> CopiedRows:
    """Time the COPY of the rows of the host `source` since a mark; older rows are copied before, untimed.

    Both sides count: the driver that encodes the rows, and the server's backend. Nothing is committed.
    """
    tables = [table for table in await ground.tables() if table not in LEFT_OUT]
    async with ground.owner.connect() as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection
        await register_vector(driver)
        await connection.execute(text(f"create schema {ground.name}"))
        backend = await driver.fetchval("select pg_backend_pid()")
        spent, counts = 0.0, {}
        for table in tables:
            columns = await _make_table(connection, ground.name, table)
            await driver.execute(_build_older_rows_query(ground.name, table, columns, since), source)
            rows = await _read_newer_rows(connection, table, source, since)
            before = time.process_time() + read_cpu_seconds(backend)
            await driver.copy_records_to_table(table, schema_name=ground.name, columns=columns, records=rows)
            spent += time.process_time() + read_cpu_seconds(backend) - before
            counts[table] = await driver.fetchval(f"select count(*) from {ground.name}.{table}")  # noqa: S608 - the catalog's names
        await connection.rollback()
        return CopiedRows(spent, counts)


async def time_bare_writes(ground: BenchDatabase, source: UUID, since: int, writes: int) -> list[float]:
    """Write the rows of the host `source` since a mark again, in `writes` transactions; return the seconds of each.

    Each transaction is one COPY per table and a commit, without logic. The tables are dropped afterwards.
    """
    async with ground.owner.connect() as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection
        await register_vector(driver)
        await connection.execute(text(f"create schema {ground.name}"))
        rows = {}
        for table in await ground.tables():
            if table in NOT_OF_A_WRITE:
                continue
            columns = await _make_table(connection, ground.name, table)
            if found := await _read_newer_rows(connection, table, source, since):
                rows[table] = columns, found
        await connection.commit()
        try:
            return [await _time_share(driver, ground.name, rows, nth, writes) for nth in range(writes)]
        finally:
            await driver.execute(f"drop schema {ground.name} cascade")


async def _time_share(
    driver: Any, schema: str, rows: Mapping[str, tuple[Sequence[str], Sequence[tuple[Any, ...]]]], nth: int, of: int
) -> float:
    """Write the nth share of every table's rows in one transaction, and return the seconds it took."""
    started = time.perf_counter()
    async with driver.transaction():
        for table, (columns, all_of_them) in rows.items():
            if share := all_of_them[nth::of]:
                await driver.copy_records_to_table(table, schema_name=schema, columns=columns, records=share)
    return time.perf_counter() - started


async def _make_table(connection: AsyncConnection, schema: str, table: str) -> list[str]:
    """Create an empty table like the original, and return its columns that are written."""
    await connection.execute(text(f"create table {schema}.{table} (like afterturn.{table} including all)"))
    for key in (await connection.execute(FOREIGN_KEYS, {"table": table})).scalars().all():
        await connection.execute(text(f"alter table {schema}.{table} add {key}"))
    return list((await connection.execute(COLUMNS, {"table": table})).scalars())


def _build_older_rows_query(schema: str, table: str, columns: Sequence[str], since: int) -> str:
    names = ", ".join(f'"{column}"' for column in columns)
    return f"""insert into {schema}.{table} ({names}) overriding system value
               select {names} from afterturn.{table}
                where host_id = $1 and xmin::text::bigint < {since}"""  # noqa: S608 - the catalog's names


async def _read_newer_rows(
    connection: AsyncConnection, table: str, source: UUID, since: int
) -> Sequence[tuple[Any, ...]]:
    """Return the rows of the host `source` since a mark, as COPY takes them."""
    names = ", ".join((await connection.execute(READ_COLUMNS, {"table": table})).scalars())
    query = f"select {names} from afterturn.{table} where host_id = $1 and xmin::text::bigint >= {since}"  # noqa: S608 - the catalog's names
    driver: Any = (await connection.get_raw_connection()).driver_connection
    return [tuple(row) for row in await driver.fetch(query, source)]
