"""A page of a bank's documents reads that page, however many documents and units the bank holds."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import NullPool, text
from sqlalchemy.ext.asyncio import create_async_engine

from store import identity
from store.database import Database
from store.memory.documents import DocumentPlace, select_page
from tests.servers import TestPostgres
from tests.store.conftest import new_host

pytestmark = [pytest.mark.slow, pytest.mark.untouched]

DOCUMENTS, PAGE = 5_000, 20
FILL = (
    "set local session_replication_role = replica",
    """insert into afterturn.agent_memory_doc_t (host_id, bank_id, doc_id, aggregate_version, update_ts, update_user)
       select '{host}', '{bank}', md5('d' || n)::uuid, 1, timestamptz '2026-01-01Z' + make_interval(mins => n), ''
         from generate_series(1, {documents}) n""",
    """insert into afterturn.agent_memory_unit_t
           (host_id, bank_id, unit_id, doc_id, content, event_date, fact_type, user_id, origin, turn_id, position,
            aggregate_version, update_ts, update_user)
       select '{host}', '{bank}', md5('u' || n)::uuid, md5('d' || n)::uuid, 'x', now(), 'experience', '{bank}',
              'document', md5('d' || n)::uuid, n, 1, now(), '' from generate_series(1, {documents}) n""",
    "analyze afterturn.agent_memory_doc_t, afterturn.agent_memory_unit_t",
)
READ = text("""
    select relname, seq_tup_read + coalesce(idx_tup_fetch, 0) as rows from pg_stat_xact_user_tables
     where schemaname = 'afterturn' and relname in ('agent_memory_doc_t', 'agent_memory_unit_t')""")


@pytest.mark.parametrize("behind", [None, datetime(2026, 1, 3, tzinfo=UTC)], ids=["first", "later"])
async def test_a_page_of_documents_reads_that_page(
    fresh_database: TestPostgres, lonely: Database, behind: datetime | None
) -> None:
    host = await new_host(lonely)
    place = {"host": host, "bank": identity.bank_id(host, "home")}
    engine = create_async_engine(fresh_database.superuser_url, poolclass=NullPool, connect_args={"ssl": False})
    async with engine.begin() as connection:
        for statement in FILL:
            await connection.exec_driver_sql(statement.format(**place, documents=DOCUMENTS))
    await engine.dispose()
    page = select_page(DocumentPlace(behind, host) if behind else None, PAGE)
    async with lonely.tenant(host) as connection:
        rows = (await connection.execute(page, {**place, "now": datetime.now(UTC)})).all()
        read = {row.relname: row.rows for row in await connection.execute(READ)}
    assert [row.units for row in rows] == [1] * PAGE
    assert rows == sorted(rows, key=lambda row: row.update_ts, reverse=True)
    # A document's units are counted, and asked whether they have ended.
    assert max(read.values()) <= 2 * PAGE + 5, read
