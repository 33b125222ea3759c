"""What SQL repeats of the registry of stages is what the registry says."""

import re

import orjson
from pydantic import SecretStr
from sqlalchemy import text

from store import identity
from store.connections import create_owner_engine
from store.database import Database
from store.ledger.freshness import Waiter, fetch_freshness
from store.ledger.stages import OWN, STAGES, Queue, Stage, describe_stages
from store.memory.turns import Appended, TurnStore
from store.settings import DatabaseSettings
from tests.servers import TestPostgres
from tests.store.conftest import NOON, new_host, rows, turn
from tests.store.ledger.test_freshness import pass_stage

CHECK = "select pg_get_constraintdef(oid) from pg_constraint where conname = 'ledger_t_stage_check'"
SET_STAGES = text("select afterturn.set_stages(cast(:stages as jsonb))")


async def only(database: Database, query: str, **arguments: object) -> str:
    ((value,),) = await rows(database, await new_host(database), query, **arguments)
    return str(value)


def quoted(part: str) -> set[str]:
    return set(re.findall(r"'(\w+)'", part))


def test_every_stage_has_an_entry() -> None:
    assert list(STAGES) == list(Stage)


def test_every_queue_but_that_of_recall_jobs_has_a_stage() -> None:
    assert {spec.queue for spec in STAGES.values()} == set(Queue) - {Queue.RECALL}


async def test_the_ledger_takes_the_rows_of_every_stage_and_no_others(database: Database) -> None:
    assert quoted(await only(database, CHECK)) == set(Stage)


async def test_sql_reads_the_registry_as_it_is(database: Database) -> None:
    found = await rows(database, await new_host(database), "select * from afterturn.stages()")
    assert found == [tuple(stage.values()) for stage in describe_stages()]


async def test_a_stage_more_is_opened_by_the_next_turn_and_waited_for_without_a_revision(
    fresh_database: TestPostgres,
) -> None:
    more = [
        *describe_stages(),
        {**describe_stages()[1], "stage": "translation", "stream": "bank", "waits": True},
    ]
    engine = create_owner_engine(fresh_database.owner_url)
    async with engine.begin() as connection:
        await connection.execute(SET_STAGES, {"stages": orjson.dumps(more).decode()})
    await engine.dispose()
    app, operator = SecretStr(fresh_database.app_url), SecretStr(fresh_database.operator_url)
    database = Database(DatabaseSettings(url=app, operator_url=operator))
    try:
        host = await new_host(database)
        [answer] = await TurnStore(database, lambda: NOON).append(host, [turn("t1", "hello")])
        assert isinstance(answer, Appended)
        opened = await rows(
            database,
            host,
            "select stream_id = bank_id, next_attempt_at = 'infinity' from ledger_t where stage = 'translation'",
        )
        bank = identity.bank_id(host, "home")
        fresh = await fetch_freshness(database, host, bank)
        for stage in OWN:
            await pass_stage(database, stage)
        behind = await Waiter(database).passed(host, bank, answer.position, 0)
        await rows(database, host, "update ledger_t set status = 'done' where stage = 'translation' returning 1")
        passed = await Waiter(database).passed(host, bank, answer.position, 0)
    finally:
        await database.close()
    assert opened == [(True, True)]
    assert fresh.pending == len(OWN) + 1
    assert (behind, passed) == (False, True)
