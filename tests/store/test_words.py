"""Where many words wait, they are carried into the index of words without waiting for a stage."""

from uuid import UUID

from sqlalchemy import NullPool, text
from sqlalchemy.ext.asyncio import create_async_engine

from store import derived, identity, projections, words
from store.database import Database
from store.turns import TurnStore
from store.words import WaitingWords
from tests.servers import TestPostgres
from tests.store.conftest import NOON, new_host, rows, turn

COUNTS = """
    select (select count(*) from unit_word_t where not posted), (select count(*) from unit_word_t where posted),
           (select count(distinct unit_id) from posting_t), (select coalesce(max(df), 0) from term_t)"""

FILL = text("""
    insert into afterturn.unit_word_t (host_id, bank_id, unit_id, length, terms, posted)
    select :host, :host, gen_random_uuid(), 1, '{"quokka": 1}', :posted from generate_series(1, 3000)""")
FETCHED = "select idx_tup_fetch + seq_tup_read from pg_stat_xact_user_tables where relname = 'unit_word_t'"


async def say(database: Database, host: UUID, count: int) -> None:
    said = [turn(f"t{n}", f"the quokka number {n} sleeps") for n in range(count)]
    await TurnStore(database, lambda: NOON).append(host, said)


async def test_many_waiting_words_are_carried_and_counted_and_few_are_left_to_the_projection_stage(
    lonely: Database,
) -> None:
    laden, light = await new_host(lonely), await new_host(lonely)
    await say(lonely, laden, words.MANY)
    await say(lonely, light, words.MANY - 1)
    assert await WaitingWords(lonely).carry(60) > 0
    assert await rows(lonely, laden, COUNTS) == [(0, words.MANY, words.MANY, words.MANY)]
    assert await rows(lonely, light, COUNTS) == [(words.MANY - 1, 0, 0, 0)]
    assert await WaitingWords(lonely).carry(60) == 0


async def test_a_bank_at_which_somebody_is_at_work_is_passed_by(lonely: Database) -> None:
    host = await new_host(lonely)
    await say(lonely, host, words.MANY)
    async with lonely.tenant(host) as connection:
        await derived.lock(connection, identity.bank_id(host, "home"))
        assert await WaitingWords(lonely).carry(60) == 1
    assert (await rows(lonely, host, COUNTS))[0][0] == words.MANY
    await WaitingWords(lonely).carry(60)
    assert (await rows(lonely, host, COUNTS))[0][0] == 0


async def test_carrying_ends_when_its_time_is_over(lonely: Database) -> None:
    host = await new_host(lonely)
    await say(lonely, host, words.MANY)
    assert await WaitingWords(lonely).carry(0) == 0
    assert (await rows(lonely, host, COUNTS))[0][0] == words.MANY


async def test_a_unit_is_carried_for_the_same_price_however_many_wait_beside_it(
    fresh_database: TestPostgres, lonely: Database
) -> None:
    host = await new_host(lonely)
    engine = create_async_engine(fresh_database.superuser_url, poolclass=NullPool, connect_args={"ssl": False})
    async with engine.begin() as connection:
        await connection.execute(FILL, {"host": host, "posted": True})
        await connection.execute(text("analyze afterturn.unit_word_t"))
        await connection.execute(FILL, {"host": host, "posted": False})
    await engine.dispose()
    async with lonely.tenant(host) as connection:
        assert await projections.carry_words(connection, host, host)
        fetched = (await connection.execute(text(FETCHED))).scalar_one()
    assert fetched < 10 * projections.UNITS_LIMIT
