"""What reads, changes or ends one thing reads that thing and what hangs on it, however much its bank holds."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from deploy.lab.bench.history import Event, History
from store.database import Database
from store.log.append import append_events
from store.log.bulk import append_bulk
from store.memory import units
from store.memory.authorship import find_unit_authors
from store.memory.directives import REFLECTIONS
from store.memory.graph import read_links
from tests.store.conftest import new_host

pytestmark = [pytest.mark.slow, pytest.mark.untouched]

BEFORE, AFTER = 4_000, 6_000
#: Rows of any one table that a change may read: a bank holds more of nearly everything, and fewer hang on a thing.
MOST_READ = 25
#: A bank ends with all that is in it.
WHOLE = {"AgentMemoryBankDeletedEvent"}
READ = text("""
    select relname, seq_tup_read + coalesce(idx_tup_fetch, 0) as rows from pg_stat_xact_user_tables
     where schemaname = 'afterturn' and (relname like 'agent_%' or relname like 'event_store%')""")

MANY_LINKS = """
    select u.bank_id, u.unit_id from afterturn.agent_memory_unit_t u
      join afterturn.agent_memory_link_t k
        on k.host_id = u.host_id and k.bank_id = u.bank_id and u.unit_id in (k.from_unit_id, k.to_unit_id)
     where u.active and k.active group by 1, 2 order by count(*) desc, 2 limit 1"""
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


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


async def test_a_read_in_a_large_bank_reads_what_it_shows(lonely: Database) -> None:
    host = await new_host(lonely)
    await append_bulk(lonely, host, list(History(host, "home", 7).events(AFTER)))
    async with lonely.tenant(host) as connection:
        [linked] = (await connection.execute(text(MANY_LINKS))).all()
        place = {"host": host, "bank": linked.bank_id, "now": NOON}
        reads: dict[str, Callable[[], Awaitable[Any]]] = {
            "unit": lambda: connection.execute(units.GET, {**place, "unit": linked.unit_id}),
            "links": lambda: read_links(connection, host, linked.bank_id, linked.unit_id, NOON),
            "authors": lambda: find_unit_authors(connection, host, linked.bank_id, [linked.unit_id]),
            "reflections": lambda: connection.execute(REFLECTIONS.limit(2), place),
        }
        for name, read in reads.items():
            before = await rows_read(connection)
            assert await read(), name
            found = await rows_read(connection) - before
            # Reflections are few: a page of them is sorted from all that the bank has.
            assert all(rows <= 2 * MOST_READ for rows in found.values()), (name, found)
