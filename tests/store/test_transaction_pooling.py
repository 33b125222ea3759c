"""A pooler in transaction mode: two sessions of the server carry what many connections ask, and none keeps a thing."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from uuid import UUID

import pytest
import pytest_asyncio
from pydantic import SecretStr
from sqlalchemy import text

from deploy.lab.bench.history import History
from store.database import SESSION_DEFAULTS, Database
from store.errors import SessionDefaultsMissing
from store.ledger.ledger import read_depths
from store.log.bulk import BulkLoadResult, append_bulk
from store.memory.turns import Appended, NewMessage, NewTurn, TurnStore
from store.recall.query import RecallQuery
from store.recall.recaller import Recaller
from store.recall.settings import RecallSettings
from store.settings import DatabaseSettings
from store.tenancy.keys import Keys
from tests.poolers import pgbouncer
from tests.producers.words import WordEmbedder
from tests.servers import TestPostgres
from tests.store.conftest import NOON, new_host

pytestmark = pytest.mark.untouched

SESSIONS, CALLERS = 2, 12


@pytest.fixture
def pooled(fresh_database: TestPostgres) -> Iterator[DatabaseSettings]:
    with pgbouncer([fresh_database.app_url, fresh_database.operator_url], sessions=SESSIONS) as (app, operator):
        yield DatabaseSettings(
            url=SecretStr(app), operator_url=SecretStr(operator), pool_size=CALLERS, transaction_pooling=True
        )


async def keep_defaults(postgres: TestPostgres) -> None:
    async with postgres.administrator() as connection:
        for role in ("afterturn_app", "afterturn_operator"):
            for name, value in SESSION_DEFAULTS.items():
                shown = value if name == "search_path" else f"'{value}'"
                await connection.execute(
                    text(f"alter role {role} in database {postgres.database} set {name} = {shown}")
                )


@pytest_asyncio.fixture(loop_scope="session")
async def database(pooled: DatabaseSettings, fresh_database: TestPostgres) -> AsyncIterator[Database]:
    await keep_defaults(fresh_database)
    made = Database(pooled)
    yield made
    await made.close()


async def test_many_write_and_ask_at_once_over_few_sessions(database: Database) -> None:
    hosts = [await new_host(database) for _ in range(CALLERS)]
    turns = TurnStore(database, lambda: NOON)

    async def write_and_ask(host: UUID, nth: int) -> None:
        for turn in range(4):
            said = NewMessage("user", f"the heron of {nth} kept ledger {turn}")
            [answer] = await turns.append(host, [NewTurn("b", "s", str(turn), (said,))])
            assert isinstance(answer, Appended)
            assert {stage.status for stage in (await turns.status(host, "b", "s", str(turn))).stages.values()}
            await read_depths(database, [host], 100)
        recaller = Recaller(database, WordEmbedder(), RecallSettings())
        found = await recaller.recall(host, RecallQuery(bank="b", text="which heron kept a ledger?", k=10))
        assert {item.text for item in found.items} == {f"the heron of {nth} kept ledger {n}" for n in range(4)}

    await asyncio.gather(*(write_and_ask(host, nth) for nth, host in enumerate(hosts)))
    assert len(await Keys(database).hosts()) == CALLERS


async def test_events_are_appended_in_bulk_over_few_sessions(database: Database) -> None:
    hosts = [await new_host(database) for _ in range(CALLERS)]

    async def load(host: UUID) -> None:
        events = list(History(host, "b", 1).events(60))
        assert await append_bulk(database, host, events, batch=20) == BulkLoadResult(60, 0)

    await asyncio.gather(*map(load, hosts))


@pytest.mark.law("L6")
async def test_a_session_that_is_lent_on_knows_no_tenant_any_more(database: Database) -> None:
    host = await new_host(database)
    for _ in range(2 * SESSIONS):
        async with database.tenant(host) as connection:
            assert await connection.scalar(text("select afterturn.current_host()")) == host
    for _ in range(2 * SESSIONS):
        async with database.call() as connection:
            assert await connection.scalar(text("select nullif(current_setting('afterturn.host', true), '')")) is None


async def test_a_role_without_session_defaults_is_refused_by_name(pooled: DatabaseSettings) -> None:
    refused = Database(pooled)
    with pytest.raises(SessionDefaultsMissing, match=r"search_path.*afterturn db init"):
        await Keys(refused).hosts()
    await refused.close()
