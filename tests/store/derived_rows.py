"""What a bank's derived state holds, for tests that compare two ways to it."""

from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from store import schema
from store.derived.bank_state import TABLES


async def read_contents(connection: AsyncConnection, host: UUID, bank: UUID) -> dict[str, list[tuple[Any, ...]]]:
    """Return the derived rows of a bank by table, sorted, so that two equal states give equal values."""
    found = {}
    for name, told in TABLES.items():
        table = schema.METADATA.tables[f"afterturn.{name}"]
        columns = [table.c[column] for column in told.split(", ")]
        query = select(*columns).where(table.c.host_id == host, table.c.bank_id == bank).order_by(*columns)
        found[name] = [tuple(row) for row in await connection.execute(query)]
    return found
