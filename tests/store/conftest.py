"""A store on a real database: one shared by the tests of this process, each test in a host of its own."""

from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import pytest
import pytest_asyncio
from pydantic import SecretStr
from sqlalchemy import SelectBase, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.database import Database
from store.ledger.ledger import Ledger
from store.memory.turns import NewMessage, NewTurn, TurnStore
from store.settings import DatabaseSettings
from store.tenancy.keys import Keys
from tests.emptied import watch
from tests.patience import BLOCKED, until
from tests.servers import TestPostgres

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def settings_of(postgres: TestPostgres) -> DatabaseSettings:
    return DatabaseSettings(
        url=SecretStr(postgres.app_url), operator_url=SecretStr(postgres.operator_url), owner_url=SecretStr("")
    )


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def database(postgres: TestPostgres) -> AsyncIterator[Database]:
    database = Database(settings_of(postgres))
    yield database
    await database.close()


@pytest_asyncio.fixture(loop_scope="session")
async def lonely(fresh_database: TestPostgres) -> AsyncIterator[Database]:
    """A store on a database no other test touches: for what counts over all hosts."""
    database = watch(settings_of(fresh_database), fresh_database)
    yield database
    await database.close()


async def explain(connection: AsyncConnection, statement: SelectBase, arguments: Mapping[str, object]) -> list[str]:
    """Return the lines of a statement's plan; arguments that it does not take are left out."""
    query = statement.compile(dialect=connection.dialect)
    values = tuple(arguments[name] for name in query.positiontup or ())
    return [line.strip() for (line,) in await connection.exec_driver_sql(f"explain (costs off) {query}", values)]


async def new_host(database: Database) -> UUID:
    name = f"host-{uuid4().hex}"
    await Keys(database).create(name, "test")
    return identity.host_id(name)


@pytest_asyncio.fixture(loop_scope="session")
async def host(database: Database) -> UUID:
    return await new_host(database)


@pytest.fixture
def turns(database: Database) -> TurnStore:
    return TurnStore(database, lambda: NOON)


@pytest.fixture
def ledger(lonely: Database) -> Ledger:
    return Ledger(lonely)


@pytest.fixture
def numbers() -> Iterator[int]:
    return count()


def turn(turn_id: str = "t1", *said: str, session: str = "s1", bank: str = "home", **more: Any) -> NewTurn:
    """Make a turn of the given messages, user and agent by turns."""
    roles = ("user", "assistant")
    messages = tuple(NewMessage(roles[n % 2], words) for n, words in enumerate(said or (f"words of {turn_id}",)))
    return NewTurn(bank, session, turn_id, messages, **more)


async def rows(database: Database, host: UUID, query: str, /, **arguments: object) -> list[tuple[Any, ...]]:
    """Run a query as the tenant and return plain tuples."""
    async with database.tenant(host) as connection:
        return [tuple(row) for row in await connection.execute(text(query), arguments)]


async def blocked(database: Database, host: UUID) -> None:
    """Return when somebody waits for a lock."""

    async def waits() -> bool:
        return bool((await rows(database, host, BLOCKED))[0][0])

    await until(waits, "somebody waits for a lock")


async def settled(database: Database, host: UUID) -> None:
    """Wait until all that is committed may be read: other tests write to the same server."""
    below = """
        select coalesce(max(xid) < pg_snapshot_xmin(pg_current_snapshot()), true) from event_store_t"""

    async def seen_by_all() -> bool:
        return bool((await rows(database, host, below))[0][0])

    await until(seen_by_all, "nobody writes any more")
