"""What the projection stage counts of a turn reads that turn and what it names, however much the bank holds."""

from uuid import UUID

import pytest
from sqlalchemy import NullPool, text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from store import identity
from store.database import NO_SYNC, Database
from store.derived import projection
from tests.servers import TestPostgres
from tests.store.conftest import new_host

pytestmark = [pytest.mark.slow, pytest.mark.untouched]

UNITS = 5_000
TABLES = ("unit_word_t", "agent_memory_unit_t", "agent_memory_unit_entity_t", "agent_memory_entity_t")
# Units of many turns, each with a mention of one of a hundred entities; only those of the last turn are to be counted.
FILL = (
    "set local session_replication_role = replica",
    """insert into afterturn.agent_memory_unit_t
           (host_id, bank_id, unit_id, content, event_date, fact_type, user_id, origin, turn_id, position,
            aggregate_version, update_ts, update_user)
       select '{host}', '{bank}', md5('u' || n)::uuid, 'x', now(), 'experience', '{bank}', 'message',
              md5('t' || n / 2)::uuid, n, 1, now(), '' from generate_series(1, {units}) n""",
    """insert into afterturn.agent_memory_entity_t
           (host_id, bank_id, entity_id, canonical_name, aggregate_version, update_ts, update_user)
       select '{host}', '{bank}', md5('e' || n)::uuid, n, 1, now(), '' from generate_series(0, {units}) n""",
    """insert into afterturn.agent_memory_unit_entity_t
           (host_id, bank_id, unit_id, entity_id, mentions, aggregate_version, counted)
       select '{host}', '{bank}', md5('u' || n)::uuid, md5('e' || (n + m) % 100)::uuid, 1, 1, n / 2 < {units} / 2
         from generate_series(1, {units}) n, generate_series(1, 3) m""",
    """insert into afterturn.unit_word_t (host_id, bank_id, unit_id, length, terms, posted)
       select '{host}', '{bank}', md5('u' || n)::uuid, 1, '{{"x": 1}}', n / 2 < {units} / 2
         from generate_series(1, {units}) n""",
)
LAST_TURN = text("select md5('t' || cast(:turn as int))::uuid")
SCANNED = text("""
    select relname from pg_stat_xact_user_tables
     where schemaname = 'afterturn' and relname = any(:tables) and seq_scan > 0""")
REMOVE = text("""
    update afterturn.agent_memory_unit_entity_t set removed_at = now()
     where bank_id = :bank and unit_id = md5('u1')::uuid""")
LINKS_READ = text("""
    select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables
     where schemaname = 'afterturn' and relname = 'agent_memory_unit_entity_t'""")


async def fill(postgres: TestPostgres, host: UUID, bank: UUID, *more: str) -> None:
    engine = create_async_engine(postgres.superuser_url, poolclass=NullPool, connect_args={"ssl": False})
    async with engine.begin() as connection:
        for statement in (*FILL, *more):
            await connection.exec_driver_sql(statement.format(host=host, bank=bank, units=UNITS))
    await engine.dispose()


async def scanned(connection: AsyncConnection) -> list[str]:
    return list((await connection.execute(SCANNED, {"tables": list(TABLES)})).scalars())


async def test_counting_a_turn_of_a_large_bank_reads_no_table_through(
    fresh_database: TestPostgres, lonely: Database
) -> None:
    host = await new_host(lonely)
    bank = identity.bank_id(host, "home")
    await fill(fresh_database, host, bank)
    async with lonely.tenant(host, NO_SYNC) as connection:
        turn = (await connection.execute(LAST_TURN, {"turn": UNITS // 2})).scalar_one()
        entities = await projection.count_links(connection, host, bank, [turn])
        await projection.count_words(connection, host, bank)
        assert await scanned(connection) == []
    assert len(entities) == 3


async def test_whether_removed_links_are_counted_still_is_known_without_reading_the_others(
    fresh_database: TestPostgres, lonely: Database
) -> None:
    host = await new_host(lonely)
    bank = identity.bank_id(host, "home")
    await fill(fresh_database, host, bank, "analyze afterturn.agent_memory_unit_entity_t")
    async with lonely.tenant(host, NO_SYNC) as connection:
        assert not await projection.has_removed_links(connection, host, bank)
        assert (await connection.execute(LINKS_READ)).scalar_one() < 10
        await connection.execute(REMOVE, {"bank": bank})
        assert await projection.has_removed_links(connection, host, bank)
