"""A tenant is a wall: kept by the database itself, whatever the code above it forgets."""

from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from store.database import NO_SETTINGS, NO_SYNC, Database
from store.memory.turns import TurnStore
from tests.servers import TestPostgres
from tests.store.conftest import new_host, rows, settings_of, turn

TENANT_TABLES = """
    select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = 'afterturn' and c.relkind in ('r', 'p') and not c.relispartition order by 1"""

pytestmark = pytest.mark.law("L6")


async def test_every_table_has_row_level_security(database: Database, host: UUID) -> None:
    unguarded = await rows(
        database,
        host,
        "select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace "
        "where n.nspname = 'afterturn' and c.relkind in ('r', 'p') and not c.relispartition and not c.relrowsecurity",
    )
    assert unguarded == []


async def test_a_tenant_sees_its_own_rows_of_every_table_and_no_others(
    turns: TurnStore, database: Database, host: UUID
) -> None:
    await turns.append(host, [turn("t1", "secret of the first")])
    other = await new_host(database)
    await turns.append(other, [turn("t1", "secret of the second")])
    for (table,) in await rows(database, host, TENANT_TABLES):
        if table == "api_key_t":
            continue
        seen = await rows(database, other, f"select distinct host_id from afterturn.{table}")
        assert seen in ([], [(other,)]), table


@pytest.mark.parametrize("table", ["agent_memory_unit_t", "event_store_t", "turn_t", "unit_word_t", "ledger_t"])
async def test_a_transaction_that_names_no_tenant_reads_nothing(
    turns: TurnStore, database: Database, host: UUID, table: str
) -> None:
    await turns.append(host, [turn()])
    async with database.call() as connection:
        try:
            found = (await connection.execute(text(f"select 1 from afterturn.{table}"))).all()
        except DBAPIError as error:
            assert "afterturn.host" in str(error.orig)
        else:
            assert found == []


async def test_a_tenant_cannot_write_into_another(database: Database, host: UUID) -> None:
    other = await new_host(database)
    async with database.tenant(host) as connection:
        with pytest.raises(DBAPIError, match="row-level security"):
            await connection.execute(
                text("insert into afterturn.bank_statistics_t values (:other, :other, 1, 1)"), {"other": other}
            )


async def test_the_tenant_of_one_transaction_is_forgotten_by_the_next(database: Database, host: UUID) -> None:
    async with database.tenant(host):
        pass
    async with database.call() as connection:
        setting = (await connection.execute(text("select current_setting('afterturn.host', true)"))).scalar()
    assert not setting


@pytest.mark.law("L1")
async def test_no_transaction_waits_for_the_disk_less_for_one_before_it_that_could_be_done_again(
    fresh_database: TestPostgres,
) -> None:
    alone = Database(settings_of(fresh_database).model_copy(update={"pool_size": 1}))
    host, waits = await new_host(alone), []
    async with alone.call() as connection:
        await connection.execute(text("set synchronous_commit = on"))
    for opening in (NO_SYNC, NO_SETTINGS):
        async with alone.tenant(host, opening) as connection:
            waits.append((await connection.execute(text("show synchronous_commit"))).scalar_one())
    await alone.close()
    assert waits == ["off", "on"]


@pytest.mark.parametrize(
    "query",
    [
        "select content from afterturn.agent_memory_unit_t",
        "select data from afterturn.event_store_t",
        "select payload from hindsight.event_store_t",
        "select terms from afterturn.unit_word_t",
        "select request from afterturn.recall_job_t",
        "select digest_key from afterturn.host_t",
        "select messages from hindsight.agent_session_history_t",
    ],
)
@pytest.mark.law("L7")
async def test_the_operator_passes_the_wall_and_sees_no_content(database: Database, query: str) -> None:
    with pytest.raises(DBAPIError, match="permission denied"):
        async with database.operator() as connection:
            await connection.execute(text(query))


async def test_a_log_is_never_changed_by_the_application(turns: TurnStore, database: Database, host: UUID) -> None:
    await turns.append(host, [turn()])
    for statement in ("delete from event_store_t", "update event_store_t set position = position"):
        async with database.tenant(host) as connection:
            with pytest.raises(DBAPIError, match="permission denied"):
                await connection.execute(text(statement))
