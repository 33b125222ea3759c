"""Operators' looks at the ledger read what is undone or failed, and nothing of what is done, however much that is."""

from datetime import timedelta
from hashlib import md5
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import NullPool, Select, text
from sqlalchemy.ext.asyncio import create_async_engine

from store.database import Database
from store.identity import host_id
from store.ledger.listing import (
    Selection,
    count_newly_failed,
    count_rows,
    list_rows,
    list_rows_of_turn,
    list_rows_with_ids,
)
from store.ledger.stages import Stage
from tests.servers import TestPostgres

pytestmark = [pytest.mark.slow, pytest.mark.untouched]

DONE, OPEN = 50_000, 40
HOST = host_id("home")
FILL = text("""
    insert into afterturn.ledger_t
        (host_id, stage, item_id, stream_id, bank_id, session_id, turn_id, position, accepted_at, status)
    select :host, 'embedding', t, t, t, t, t, n, now(),
           case when n <= cast(:done as int) then 'done' when n % 2 = 0 then 'dead' else 'pending' end
      from generate_series(1, cast(:rows as int)) n, lateral (select md5(n::text)::uuid as t) t""")
READ = text("""
    select coalesce(seq_scan, 0), coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)
      from pg_stat_xact_user_tables where schemaname = 'afterturn' and relname = 'ledger_t'""")

SELECTIONS: dict[str, Selection] = {
    "all": Selection(),
    "dead": Selection(stages=(Stage.EMBEDDING,), statuses=("dead",), older_than=timedelta()),
    "one host": Selection(statuses=("pending", "running"), host=HOST),
}
LOOKS: dict[str, Select[*tuple[Any, ...]]] = {
    **{f"list {name}": list_rows(selection, 51) for name, selection in SELECTIONS.items()},
    **{f"count {name}": count_rows(selection) for name, selection in SELECTIONS.items()},
    "newly failed": count_newly_failed(timedelta(minutes=10)),
    "of a turn": list_rows_of_turn(HOST, HOST),
    "by id": list_rows_with_ids(HOST, Stage.EMBEDDING, [UUID(md5(str(n).encode()).hexdigest()) for n in range(1, 21)]),
}


async def fill(postgres: TestPostgres) -> None:
    engine = create_async_engine(postgres.superuser_url, poolclass=NullPool, connect_args={"ssl": False})
    async with engine.begin() as connection:
        await connection.execute(
            text("insert into afterturn.host_t (host_id, name) values (:host, 'home')"), {"host": HOST}
        )
        await connection.execute(FILL, {"host": HOST, "done": DONE, "rows": DONE + OPEN})
        await connection.execute(text("analyze afterturn.ledger_t"))
    await engine.dispose()


async def test_no_look_reads_what_is_done(fresh_database: TestPostgres, lonely: Database) -> None:
    await fill(fresh_database)
    for name, statement in LOOKS.items():
        # More often than a driver waits before it keeps a plan for all arguments.
        async with lonely.operator() as connection:
            for _ in range(8):
                await connection.execute(statement)
            scans, read = (await connection.execute(READ)).one()
        assert scans == 0, name
        assert read <= 8 * 10 * OPEN, name
