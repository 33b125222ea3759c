"""A page of pruning reads that page, however long the ledger is."""

from uuid import UUID

import pytest
from sqlalchemy import NullPool, text

from store.connections import create_owner_engine
from store.database import Database
from store.identity import host_id
from tests.servers import TestPostgres

pytestmark = [pytest.mark.slow, pytest.mark.untouched]

ROWS, PAGE = 20_000, 250
HOST = host_id("home")
# Rows of turns that are in the ledger, and one whose turn is not.
FILL = text("""
    insert into afterturn.ledger_t
        (host_id, stage, item_id, stream_id, bank_id, session_id, turn_id, position, accepted_at, updated_at, status)
    select :host, s.stage, case s.stage when 'projection' then t else md5(n || 'item')::uuid end, t, t, t, t, n, now(),
           now() - interval '1 day', 'done'
      from generate_series(1, cast(:rows as int)) n, lateral (select md5(n::text)::uuid as t) t,
           unnest(array['embedding', 'projection']) s(stage)
     where n < cast(:rows as int) or s.stage = 'embedding'""")
PRUNE = text("""
    select last, looked, removed
      from afterturn.prune_late_rows(:host, 'embedding', :after, now(), cast(:limit as int))""")
READ = text("""
    select coalesce(seq_scan, 0), coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)
      from pg_stat_xact_user_tables where schemaname = 'afterturn' and relname = 'ledger_t'""")


async def test_a_page_of_late_rows_reads_that_page(fresh_database: TestPostgres, lonely: Database) -> None:
    engine = create_owner_engine(fresh_database.owner_url, poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.execute(FILL, {"host": HOST, "rows": ROWS})
        await connection.execute(text("analyze afterturn.ledger_t"))
    await engine.dispose()
    after, removed = UUID(int=0), 0
    async with lonely.operator() as connection:
        for _ in range(8):
            page = (await connection.execute(PRUNE, {"host": HOST, "after": after, "limit": PAGE})).one()
            assert page.looked == PAGE
            after, removed = page.last, removed + page.removed
        scans, read = (await connection.execute(READ)).one()
        assert scans == 0
        assert read < 8 * 4 * PAGE
        while page.looked == PAGE:
            page = (await connection.execute(PRUNE, {"host": HOST, "after": after, "limit": PAGE})).one()
            after, removed = page.last, removed + page.removed
    assert removed == 1
