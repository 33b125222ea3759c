"""Where many words wait, they are carried into the index of words without waiting for a stage."""

import asyncio
from uuid import UUID

import pytest
from pydantic import SecretStr
from sqlalchemy import NullPool, text
from sqlalchemy.ext.asyncio import create_async_engine
from structlog.testing import capture_logs

from store import identity
from store.database import Database
from store.derived import locks, pending_words, projection
from store.derived.pending_words import PendingWordsIndexer, PendingWordsLimit
from store.memory.turns import TurnStore
from store.memory.units import Units
from tests.patience import PATIENCE_S, until
from tests.servers import TestPostgres
from tests.store.conftest import NOON, new_host, rows, settings_of, turn

COUNTS = """
    select (select count(*) from unit_word_t where not posted), (select count(*) from unit_word_t where posted),
           (select count(distinct unit_id) from posting_t), (select coalesce(max(df), 0) from term_t)"""

FILL = text("""
    insert into afterturn.unit_word_t (host_id, bank_id, unit_id, length, terms, posted)
    select :host, :host, gen_random_uuid(), 1, '{"quokka": 1}', :posted from generate_series(1, 3000)""")
FETCHED = "select idx_tup_fetch + seq_tup_read from pg_stat_xact_user_tables where relname = 'unit_word_t'"


#: Whether somebody waits for a bank's words.
WAITS = text("""
    select exists (select from pg_locks l, lateral (select afterturn.lock_key('words', :bank) as key) k
                    where l.locktype = 'advisory' and not l.granted
                      and l.classid::bigint = k.key >> 32 & 4294967295 and l.objid::bigint = k.key & 4294967295)""")


async def say(database: Database, host: UUID, count: int, named: str = "t") -> None:
    said = [turn(f"{named}{n}", f"the quokka number {n} sleeps") for n in range(count)]
    await TurnStore(database, lambda: NOON).append(host, said)


async def test_many_waiting_words_are_carried_and_counted_and_few_are_left_to_the_projection_stage(
    lonely: Database,
) -> None:
    laden, light = await new_host(lonely), await new_host(lonely)
    await say(lonely, laden, pending_words.MANY)
    await say(lonely, light, pending_words.MANY - 1)
    assert await PendingWordsIndexer(lonely).index(60) > 0
    assert await rows(lonely, laden, COUNTS) == [(0, pending_words.MANY, pending_words.MANY, pending_words.MANY)]
    assert await rows(lonely, light, COUNTS) == [(pending_words.MANY - 1, 0, 0, 0)]
    assert await PendingWordsIndexer(lonely).index(60) == 0


async def test_words_are_carried_though_somebody_is_at_work_on_their_bank(lonely: Database) -> None:
    host = await new_host(lonely)
    await say(lonely, host, pending_words.MANY)
    async with lonely.tenant(host) as connection:
        await locks.lock_bank(connection, identity.bank_id(host, "home"))
        assert await PendingWordsIndexer(lonely).index(60) == 1
    assert await rows(lonely, host, COUNTS) == [(0, pending_words.MANY, pending_words.MANY, pending_words.MANY)]


async def test_a_unit_that_somebody_is_changing_is_passed_over_and_carried_later(lonely: Database) -> None:
    host = await new_host(lonely)
    await say(lonely, host, pending_words.MANY)
    async with lonely.tenant(host) as connection:
        await connection.execute(text("select from afterturn.unit_word_t where not posted limit 1 for update"))
        assert await PendingWordsIndexer(lonely).index(60) == 1
    assert await rows(lonely, host, COUNTS) == [(1, *3 * (pending_words.MANY - 1,))]
    async with lonely.tenant(host) as connection:
        await projection.index_words(connection, host, identity.bank_id(host, "home"))
    assert await rows(lonely, host, COUNTS) == [(0, *3 * (pending_words.MANY,))]


async def test_two_who_carry_the_words_of_a_bank_take_turns(database: Database, host: UUID) -> None:
    await say(database, host, 2)
    bank = identity.bank_id(host, "home")
    async with database.tenant(host) as first:
        await projection.index_words(first, host, bank)
        await TurnStore(database, lambda: NOON).append(host, [turn("later", "another quokka wakes")])
        second = asyncio.create_task(pending_words.index_words(database, host, bank))
        await until(lambda: waits(database, bank), "the second waits")
        assert not second.done()
    await second
    assert await rows(database, host, COUNTS) == [(0, 3, 3, 3)]


@pytest.mark.law("L11")
async def test_a_unit_that_is_forgotten_while_its_words_are_carried_leaves_none(database: Database, host: UUID) -> None:
    await say(database, host, 1)
    bank = identity.bank_id(host, "home")
    [(unit,)] = await rows(database, host, "select unit_id from unit_word_t")
    async with database.tenant(host) as carrying:
        await projection.index_words(carrying, host, bank)
        forgetting = asyncio.create_task(Units(database, lambda: NOON).forget(host, "home", unit))
        await until(lambda: waits_for_a_row(database), "who forgets waits")
    await forgetting
    assert await rows(database, host, "select count(*) from posting_t") == [(0,)]
    assert await rows(database, host, "select count(*) from unit_word_t") == [(0,)]


async def waits_for_a_row(database: Database) -> bool:
    async with database.operator() as connection:
        found = await connection.execute(text("select exists (select from pg_locks where not granted)"))
        return bool(found.scalar_one())


async def waits(database: Database, bank: UUID) -> bool:
    async with database.operator() as connection:
        return bool((await connection.execute(WAITS, {"bank": bank})).scalar_one())


async def test_who_brings_turns_faster_than_their_words_are_carried_waits_for_them(
    database: Database, host: UUID
) -> None:
    bank, kept = identity.bank_id(host, "home"), PendingWordsLimit(database, many=10)
    async with database.tenant(host) as connection:
        await projection.lock_words(connection, bank)
        for batch in range(2):
            await say(database, host, 10, f"of-{batch}")
            bringing = asyncio.create_task(kept.wait_for_room(host, {bank: 10}))
            if not batch:
                await bringing
        await until(lambda: waits(database, bank), "the first carrying waits")
        assert not bringing.done()
    await bringing
    await kept.close()
    assert await rows(database, host, COUNTS) == [(0, 20, 20, 20)]


async def test_callers_that_waited_for_words_start_one_further_run_together(database: Database, host: UUID) -> None:
    runs = list[UUID]()

    class Noted(PendingWordsLimit):
        async def _index(self, host: UUID, bank: UUID) -> None:
            runs.append(bank)
            await super()._index(host, bank)

    bank, kept = identity.bank_id(host, "home"), Noted(database, many=10)
    async with database.tenant(host) as connection:
        await projection.lock_words(connection, bank)
        await say(database, host, 10)
        await kept.wait_for_room(host, {bank: 10})
        callers = [asyncio.create_task(kept.wait_for_room(host, {bank: 10})) for _ in range(5)]
        await until(lambda: waits(database, bank), "the first run waits")
        assert not any(caller.done() for caller in callers)
    await asyncio.gather(*callers)
    await kept.close()
    assert runs == [bank, bank]


async def test_nobody_waits_for_words_that_somebody_else_is_changing(database: Database, host: UUID) -> None:
    bank, kept = identity.bank_id(host, "home"), PendingWordsLimit(database, many=10)
    await say(database, host, 10)
    async with database.tenant(host) as connection, asyncio.timeout(PATIENCE_S):
        await connection.execute(text("select from afterturn.unit_word_t for update"))
        for _ in range(2):
            await kept.wait_for_room(host, {bank: 10})
    await kept.close()


async def test_few_waiting_words_are_left_to_the_stages(database: Database, host: UUID) -> None:
    bank, kept = identity.bank_id(host, "home"), PendingWordsLimit(database, many=10)
    await say(database, host, 9)
    await kept.wait_for_room(host, {bank: 9})
    await kept.wait_for_room(host, {bank: 1})
    await kept.close()
    assert (await rows(database, host, COUNTS))[0][0] == 9


async def test_a_turn_is_accepted_though_its_words_cannot_be_carried(fresh_database: TestPostgres, host: UUID) -> None:
    gone = Database(
        settings_of(fresh_database).model_copy(update={"url": SecretStr("postgresql+asyncpg://n:n@127.0.0.1:1/n")})
    )
    kept = PendingWordsLimit(gone, many=1)
    with capture_logs() as said:
        for _ in range(2):
            await kept.wait_for_room(host, {host: 1})
        await kept.close()
    await gone.close()
    assert {line["event"] for line in said} == {"pending_words_failed"}


async def test_carrying_ends_when_its_time_is_over(lonely: Database) -> None:
    host = await new_host(lonely)
    await say(lonely, host, pending_words.MANY)
    assert await PendingWordsIndexer(lonely).index(0) == 0
    assert (await rows(lonely, host, COUNTS))[0][0] == pending_words.MANY


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
        assert await projection.index_words(connection, host, host)
        fetched = (await connection.execute(text(FETCHED))).scalar_one()
    assert fetched < 10 * projection.UNITS_LIMIT
