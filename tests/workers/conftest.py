"""A world for workers: a migrated database of one test, a host in it, and turns to work on."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest_asyncio
from pydantic import SecretStr
from sqlalchemy import Executable

from store import identity
from store.ledger.ledger import Ledger
from store.ledger.stages import Stage
from store.memory.turns import Appended, NewMessage, NewTurn, TurnStore
from store.settings import DatabaseSettings
from store.tenancy.gateway_targets import GatewayTarget
from tests.emptied import Lender, watch
from tests.patience import BLOCKED, until
from tests.servers import TestPostgres
from tests.watched import Watched
from tests.workers.targets import hand_to

HOST = identity.host_id("default")
BANK = identity.bank_id(HOST, "default")
START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def now() -> datetime:
    return datetime.now(UTC)


def dialogue(user: str = "Where is Anna?", assistant: str = "Anna is in Kyoto.") -> list[NewMessage]:
    """A user's prompt and the agent's answer to it."""
    return [
        NewMessage("user", user, occurred_at=START),
        NewMessage("assistant", assistant, occurred_at=START + timedelta(seconds=2)),
    ]


@dataclass
class World:
    """A database with one host; `sql` asks it anything, as the superuser."""

    postgres: TestPostgres
    database: Watched
    ledger: Ledger
    turns: TurnStore

    async def append(
        self,
        session: str = "s",
        turn: str = "t",
        *,
        messages: list[NewMessage] | None = None,
        gateway: bool = True,
        bank: str = "default",
    ) -> Appended:
        new = NewTurn(bank, session, turn, messages or dialogue(), gateway=gateway)
        answer = (await self.turns.append(HOST, [new]))[0]
        assert isinstance(answer, Appended)
        return answer

    async def hand_to(self, url: str, *, bank: str | None = None, **who: str) -> GatewayTarget:
        """Have turns of the host, or of one bank, handed to the gateway at an address."""
        bank_id = None if bank is None else identity.bank_id(HOST, bank)
        return await hand_to(self.database, HOST, url, bank=bank_id, **who)

    async def sql(self, statement: str | Executable, **arguments: Any) -> list[Any]:
        return await self.database.sql(statement, **arguments)

    async def blocked(self) -> None:
        """Return when somebody waits for a lock."""

        async def waits() -> bool:
            return bool((await self.sql(BLOCKED))[0][0])

        await until(waits, "somebody waits for a lock")

    async def statuses(self, stage: Stage) -> list[str]:
        """The statuses of a stage's turns, in the order they were accepted."""
        rows = await self.sql(
            "select status from afterturn.ledger_t where stage = :stage order by position, item_id",
            stage=stage.value,
        )
        return [row.status for row in rows]

    async def expire_leases(self) -> None:
        await self.sql("update afterturn.claim_t set lease_until = now() - interval '1 second'")

    async def forget_backoff(self) -> None:
        await self.sql("update afterturn.ledger_t set next_attempt_at = now() where next_attempt_at < 'infinity'")


def settings_of(postgres: TestPostgres, pool_size: int = 4) -> DatabaseSettings:
    return DatabaseSettings(
        url=SecretStr(postgres.app_url), operator_url=SecretStr(postgres.operator_url), pool_size=pool_size
    )


async def open_world(postgres: TestPostgres, pool_size: int = 4) -> World:
    database = watch(settings_of(postgres, pool_size), postgres)
    world = World(postgres, database, Ledger(database), TurnStore(database, now))
    await world.sql(
        "insert into afterturn.host_t (host_id, name) values (:host, 'default') on conflict do nothing", host=HOST
    )
    return world


@pytest_asyncio.fixture(loop_scope="session")
async def world(fresh_database: TestPostgres) -> AsyncIterator[World]:
    opened = await open_world(fresh_database)
    yield opened
    await opened.database.close()


def turn_uuid(session: str, turn: str, bank: str = "default") -> UUID:
    return identity.turn_id(identity.session_id(identity.bank_id(HOST, bank), session), turn)


@pytest_asyncio.fixture(loop_scope="session")
async def elsewhere(lender: Lender) -> AsyncIterator[World]:
    """Another database with the same tenant, empty."""
    kept = await lender.lend()
    opened = await open_world(kept.postgres)
    yield opened
    await opened.database.close()
    lender.take_back(kept)
