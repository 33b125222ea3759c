"""Readiness: what fails, what is merely not as it should be, and why."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from pydantic import SecretStr

from deploy.health import GROWTH_S, TOO_OLD_S, ApiHealth
from deploy.metrics import Counts, LedgerCounts
from producers.doorbell import Doorbell
from store.database import Database
from store.ledger import PUBLIC_STATUSES, Ledger, Stage, StageCounts
from store.settings import DatabaseSettings
from tests.producers.conftest import broker_of, database_of
from tests.servers import TestPostgres, TestValkey


@dataclass
class Ledgers(LedgerCounts):
    """Counts as a test says."""

    dead: int = 0
    oldest_s: float = 0.0

    async def read(self) -> Counts:
        counts = dict.fromkeys(PUBLIC_STATUSES, 0) | {"dead": self.dead}
        return {Stage.EMBEDDING: StageCounts(counts, self.oldest_s)}


@dataclass
class Stack:
    """The parts a health check looks at."""

    database: Database
    doorbell: Doorbell
    ledger: Ledgers = field(default_factory=Ledgers)
    model: str = ""

    @property
    def health(self) -> ApiHealth:
        return ApiHealth(self.database, self.doorbell, self.ledger, lambda: self.model)


@pytest.fixture
async def stack(postgres: TestPostgres, valkey: TestValkey) -> AsyncIterator[Stack]:
    made = Stack(database_of(postgres), Doorbell(broker_of(valkey.url, "health")))
    yield made
    await made.doorbell.close()
    await made.database.close()


async def test_a_service_whose_parts_all_answer_is_ready(stack: Stack) -> None:
    found = await stack.health.ready()
    assert (found.status, dict(found.failing), list(found.degraded)) == ("ready", {}, [])


async def test_without_the_database_it_fails_and_names_no_secret(stack: Stack) -> None:
    await stack.database.close()
    away = SecretStr("postgresql+asyncpg://nobody:zq81@127.0.0.1:9/none")
    stack.database = Database(DatabaseSettings(url=away, operator_url=away))
    found = await stack.health.ready()
    assert (found.status, list(found.failing)) == ("failing", ["database"])
    assert "zq81" not in str(found)


async def test_a_database_without_our_schema_fails(stack: Stack, postgres: TestPostgres) -> None:
    await stack.database.close()
    stack.database = database_of(postgres.named("postgres"))
    assert (await stack.health.ready()).failing


async def test_without_redis_or_a_model_it_is_degraded(stack: Stack) -> None:
    stack.doorbell = Doorbell(broker_of("redis://127.0.0.1:9/0", "away"))
    stack.model = "the sentence model is being loaded"
    found = await stack.health.ready()
    assert found.status == "degraded"
    assert [reason.partition(":")[0] for reason in found.degraded] == ["broker", "embedding"]


async def test_work_that_is_too_old_degrades(stack: Stack) -> None:
    stack.ledger.oldest_s = TOO_OLD_S + 1
    assert (await stack.health.ready()).degraded == ["embedding: the oldest undone work waits for 301 s"]


async def test_quarantine_degrades_while_it_grows(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("deploy.health.time.monotonic", lambda: now)
    health, stack.ledger.dead = stack.health, 5
    assert (await health.ready()).status == "ready"
    stack.ledger.dead = 7
    assert (await health.ready()).degraded == ["quarantine: 2 more within 10 minutes"]
    now += GROWTH_S + 1
    assert (await health.ready()).status == "ready"


async def test_a_ledger_that_cannot_be_read_is_no_growth(stack: Stack) -> None:
    class Empty(LedgerCounts):
        async def read(self) -> Counts:
            return {}

    counts = Empty(Ledger(stack.database))
    assert (await ApiHealth(stack.database, stack.doorbell, counts, lambda: "").ready()).status == "ready"
