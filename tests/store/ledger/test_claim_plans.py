"""A claim reads a few rows, however long the ledger is and whoever holds what."""

from datetime import timedelta

import pytest
from sqlalchemy import NullPool, TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.connections import create_owner_engine
from store.database import Database
from store.ledger.ledger import CLAIM
from store.ledger.stages import Stage
from tests.servers import TestPostgres

pytestmark = [pytest.mark.slow, pytest.mark.untouched]

ROWS = 20_000
FILL = text("""
    insert into afterturn.ledger_t
        (host_id, stage, item_id, stream_id, bank_id, session_id, turn_id, position, accepted_at, next_attempt_at)
    select h, :stage, gen_random_uuid(), md5((n % :streams)::text)::uuid, h, h, gen_random_uuid(), n, now(),
           case when :waiting and n % 2 = 0 then 'infinity'::timestamptz else now() end
      from generate_series(1, :rows) n, (select md5('host')::uuid as h)""")
# The oldest rows of the one host wait.
LATE = text("update afterturn.ledger_t set next_attempt_at = now() + interval '1 hour' where position <= 300")
# A second host, whose rows are ready.
ANOTHER = text("""
    insert into afterturn.ledger_t
        (host_id, stage, item_id, stream_id, bank_id, session_id, turn_id, position, accepted_at)
    select h, 'extraction', gen_random_uuid(), gen_random_uuid(), h, h, gen_random_uuid(), n, now()
      from generate_series(20001, 20040) n, (select md5('another')::uuid as h)""")
# The claims are counted while there are none, as autovacuum may.
COUNTED = text("analyze afterturn.claim_t")
READ = text("""
    select coalesce(sum(seq_scan), 0), sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))
             filter (where relname = 'ledger_t')
      from pg_stat_xact_user_tables where schemaname = 'afterturn' and relname in ('ledger_t', 'claim_t')""")


async def fill(postgres: TestPostgres, stage: Stage, streams: int, *, waiting: bool = False) -> None:
    arguments = {"stage": stage.value, "rows": ROWS, "streams": streams, "waiting": waiting}
    await as_owner(postgres, FILL.bindparams(**arguments), COUNTED)


async def as_owner(postgres: TestPostgres, *statements: TextClause) -> None:
    engine = create_owner_engine(postgres.owner_url, poolclass=NullPool)
    async with engine.begin() as connection:
        for statement in statements:
            await connection.execute(statement)
    await engine.dispose()


async def claim(connection: AsyncConnection, stage: Stage, *, ordered: bool) -> int:
    oldest_first_after = timedelta(seconds=30) if stage is Stage.EMBEDDING else None
    arguments = (
        stage.value,
        8,
        20,
        timedelta(seconds=30),
        "w",
        ordered,
        5,
        oldest_first_after,
        stage is Stage.EXTRACTION,
        1_048_576,
    )
    return len((await connection.exec_driver_sql(CLAIM, arguments)).all())


@pytest.mark.parametrize(
    "stage, streams, ordered, waiting",
    [
        (Stage.EXTRACTION, 10, True, False),
        (Stage.EXTRACTION, 1_000, True, False),
        (Stage.EXTRACTION, ROWS, True, False),
        (Stage.GATEWAY, 1_000, True, False),
        (Stage.EMBEDDING, ROWS, False, False),
        (Stage.PROJECTION, 10, False, True),
    ],
)
async def test_four_claims_of_a_long_ledger_read_few_rows_and_never_the_whole_table(
    fresh_database: TestPostgres, lonely: Database, stage: Stage, streams: int, *, ordered: bool, waiting: bool
) -> None:
    await fill(fresh_database, stage, streams, waiting=waiting)
    async with lonely.operator() as connection:
        handed_out = [await claim(connection, stage, ordered=ordered) for _ in range(4)]
        scans, read = (await connection.execute(READ)).one()
    assert handed_out[0] > 0
    assert scans == 0
    assert read > sum(handed_out)
    # Everything handed out is read a few times over (found, checked, counted), and a window of the oldest rows.
    assert read < 4 * sum(handed_out) + 4 * 1500


async def test_what_stands_behind_rows_that_wait_is_found_by_few_looks(
    fresh_database: TestPostgres, lonely: Database
) -> None:
    await fill(fresh_database, Stage.EXTRACTION, 1_000)
    await as_owner(fresh_database, LATE, ANOTHER)
    async with lonely.operator() as connection:
        handed_out = [await claim(connection, Stage.EXTRACTION, ordered=True) for _ in range(4)]
        scans, read = (await connection.execute(READ)).one()
    # Four streams with twenty rows each of the one host, four with a single row of the other.
    assert handed_out == 4 * [4 * 20 + 4]
    assert scans == 0
    assert read < 4 * sum(handed_out) + 4 * 1500
