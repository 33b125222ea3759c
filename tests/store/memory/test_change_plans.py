"""What changes or ends one thing reads that thing and what hangs on it, however much its bank holds."""

from collections import Counter
from collections.abc import Iterable, Iterator

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from deploy.lab.bench.history import Event, History
from store.database import Database
from store.log.append import append_events
from store.log.bulk import append_bulk
from tests.store.conftest import new_host

pytestmark = pytest.mark.slow

BEFORE, AFTER = 4_000, 6_000
#: Rows of any one table that a change may read: a bank holds more of nearly everything, and fewer hang on a thing.
MOST_READ = 25
#: A bank ends with all that is in it.
WHOLE = {"AgentMemoryBankDeletedEvent"}
READ = text("""
    select relname, seq_tup_read + coalesce(idx_tup_fetch, 0) as rows from pg_stat_xact_user_tables
     where schemaname = 'afterturn' and relname like 'agent_%'""")


def first_changes(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the first event of each type that follows what was there before, and nothing that followed since."""
    seen, moved = set(WHOLE), set[str]()
    for event in events:
        if event["version"] > 1 and event["subject"] not in moved and event["type"] not in seen:
            seen.add(event["type"])
            yield event
        moved.add(event["subject"])


async def rows_read(connection: AsyncConnection) -> Counter[str]:
    """Return how many rows this connection has read so far, by table."""
    return Counter({row.relname: row.rows for row in await connection.execute(READ)})


async def test_a_change_in_a_large_bank_reads_what_it_changes(lonely: Database) -> None:
    host = await new_host(lonely)
    history = list(History(host, "home", 7).events(BEFORE + AFTER))
    await append_bulk(lonely, host, history[:BEFORE])
    changes = list(first_changes(history[BEFORE:]))
    assert len(changes) >= 12
    for change in changes:
        async with lonely.tenant(host, undo=True) as connection:
            before = await rows_read(connection)
            await append_events(connection, host, [change])
            read = await rows_read(connection) - before
            assert all(rows <= MOST_READ for rows in read.values()), (change["type"], read)
