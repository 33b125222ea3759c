"""What it costs to write the rows of the stages by COPY, in no more than one statement a table.

What the stages wrote for one host is read back, row by row as it stands now, and given to another host. The ledger and
its claims are the stages' own book-keeping and left out.
"""

import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import text

from deploy.bench.floors import COLUMNS
from deploy.bench.ground import Ground
from deploy.bench.pipeline_stack import cpu_seconds
from store import vectors

#: Tables of the book-keeping, and of what belongs to a host from its beginning.
LEFT_OUT = frozenset({"ledger_t", "claim_t", "host_t", "api_key_t", "quota_t"})

# The first transaction of those to come: whatever a row says of its last writer, it is this one or later.
MARK = text("select pg_current_xact_id()::text::bigint")


async def mark(ground: Ground) -> int:
    """Return a mark that tells rows written from now on from those that are there."""
    async with ground.owner.begin() as connection:
        return int((await connection.execute(MARK)).scalar_one())


async def copying(ground: Ground, source: UUID, target: UUID, since: int) -> float:
    """Copy what `source` has to `target`, a host without rows; return the processor time of what is newer than `since`.

    Counted are both sides, in seconds: the driver that encodes the rows and the server's backend.
    """
    async with ground.owner.begin() as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection
        await vectors.register(driver)
        backend = await driver.fetchval("select pg_backend_pid()")
        spent = 0.0
        for table in await ground.tables():
            if table in LEFT_OUT:
                continue
            columns = list((await connection.execute(COLUMNS, {"table": table})).scalars())
            await driver.execute(_older(table, columns, source, target, since))
            rows = [_row(one, target) for one in await driver.fetch(_newer(table, columns, since), source)]
            before = time.process_time() + cpu_seconds(backend)
            await driver.copy_records_to_table(table, schema_name="afterturn", columns=columns, records=rows)
            spent += time.process_time() + cpu_seconds(backend) - before
        return spent


def _older(table: str, columns: Sequence[str], source: UUID, target: UUID, since: int) -> str:
    others = ", ".join(f'"{column}"' for column in columns if column != "host_id")
    return f"""insert into afterturn.{table} (host_id, {others}) overriding system value
               select '{target}', {others} from afterturn.{table}
                where host_id = '{source}' and xmin::text::bigint < {since}"""  # noqa: S608 - the catalog's names


def _newer(table: str, columns: Sequence[str], since: int) -> str:
    names = ", ".join(f'"{column}"' for column in columns)
    return f"select {names} from afterturn.{table} where host_id = $1 and xmin::text::bigint >= {since}"  # noqa: S608 - the catalog's names


def _row(record: Any, host: UUID) -> tuple[Any, ...]:
    row = {**record, "host_id": host}
    return tuple(orjson.dumps(value).decode() if isinstance(value, dict) else value for value in row.values())
