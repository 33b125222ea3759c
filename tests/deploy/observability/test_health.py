"""Readiness: what fails, what is merely degraded, and why."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from deploy.api.health import ApiHealth
from deploy.observability.disk_space import DATABASE
from deploy.observability.health_rules import LedgerSample
from deploy.observability.metrics import LedgerCounts
from deploy.settings import HealthSettings
from producers.notifications import Notifier
from store.database import Database
from store.ledger.ledger import PUBLIC_STATUSES, Ledger, StageCounts
from store.ledger.listing import Backlog
from store.ledger.stages import Stage
from store.settings import DatabaseSettings
from tests.patience import PATIENCE_S
from tests.producers.conftest import broker_of, database_of
from tests.servers import TestPostgres, TestValkey
from tests.workers.conftest import open_world


@dataclass
class Ledgers(LedgerCounts):
    """Counts as a test says."""

    newly_failed: int = 0
    oldest_s: float = 0.0

    async def read(self) -> LedgerSample:
        counts = dict.fromkeys(PUBLIC_STATUSES, 0) | {"dead": 5}
        return LedgerSample({Stage.EMBEDDING: StageCounts(counts, self.oldest_s)}, self.newly_failed)


@dataclass
class Stack:
    """The parts a health check looks at."""

    database: Database
    notifier: Notifier
    ledger: Ledgers = field(default_factory=Ledgers)
    model: str = ""
    settings: HealthSettings = field(default_factory=HealthSettings)
    data: Path = field(default_factory=Path)

    @property
    def health(self) -> ApiHealth:
        return ApiHealth(
            self.database, self.notifier, self.ledger, {"embedding": lambda: self.model}, self.settings, data=self.data
        )


@pytest.fixture
async def stack(postgres: TestPostgres, valkey: TestValkey) -> AsyncIterator[Stack]:
    made = Stack(database_of(postgres), Notifier(broker_of(valkey.url, "health")))
    yield made
    await made.notifier.close()
    await made.database.close()


async def test_a_service_whose_parts_all_answer_is_ready(stack: Stack) -> None:
    found = await stack.health.ready()
    assert (found.status, dict(found.failing), list(found.reasons)) == ("ready", {}, [])


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


async def test_where_the_model_is_not_installed_it_is_not_ready(stack: Stack) -> None:
    health = ApiHealth(
        stack.database,
        stack.notifier,
        stack.ledger,
        {},
        stack.settings,
        data=stack.data,
        missing_model=lambda: "ModelMissing",
    )
    found = await health.ready()
    assert (found.status, dict(found.failing)) == ("failing", {"embedding": "ModelMissing"})


async def test_without_redis_or_a_model_it_is_degraded(stack: Stack) -> None:
    stack.notifier = Notifier(broker_of("redis://127.0.0.1:9/0", "away"))
    stack.model = "the sentence model is being loaded"
    found = await stack.health.ready()
    assert found.status == "degraded"
    assert [reason.partition(":")[0] for reason in found.reasons] == ["broker", "embedding"]


async def test_work_that_is_too_old_degrades(stack: Stack) -> None:
    stack.ledger.oldest_s = stack.settings.oldest_undone_seconds + 1
    assert (await stack.health.ready()).reasons == ("embedding: the oldest undone work waits for 301 s",)
    stack.settings = HealthSettings(oldest_undone_seconds=3600)
    assert (await stack.health.ready()).status == "ready"


async def test_a_disk_that_is_nearly_full_degrades(stack: Stack, tmp_path: Path) -> None:
    stack.data = tmp_path
    (tmp_path / DATABASE).mkdir()
    stack.settings = HealthSettings(disk_low_bytes=1 << 60, disk_reserve_bytes=0)
    assert (await stack.health.ready()).reasons[0].endswith("MiB are free; below 0 MiB writes are refused")
    stack.settings = HealthSettings(disk_low_bytes=1 << 60, disk_reserve_bytes=1 << 59)
    assert "MiB are free, writes are refused until" in (await stack.health.ready()).reasons[0]


async def test_a_disk_without_the_database_degrades_and_no_write_is_said_to_be_refused(
    stack: Stack, tmp_path: Path
) -> None:
    stack.data = tmp_path
    stack.settings = HealthSettings(disk_low_bytes=1 << 60, disk_reserve_bytes=1 << 59)
    assert (await stack.health.ready()).reasons[0].endswith("MiB are free in the data folder")


async def test_quarantine_degrades_while_it_grows(stack: Stack) -> None:
    assert (await stack.health.ready()).status == "ready", "what has been there for long is known"
    stack.ledger.newly_failed = 2
    assert (await stack.health.ready()).reasons == ("quarantine: 2 more within 10 minutes",)
    stack.settings = HealthSettings(quarantine_growth=3)
    assert (await stack.health.ready()).status == "ready"


async def test_growth_is_what_came_lately_and_is_there_still(fresh_database: TestPostgres) -> None:
    """Whichever process is asked, and whenever it was started."""
    world = await open_world(fresh_database)
    backlog, window = Backlog(world.database), timedelta(minutes=10)
    for n in range(3):
        await world.append(f"s{n}", "t")
    await world.sql("update afterturn.ledger_t set status = 'dead', updated_at = now() where stage = 'embedding'")
    assert await backlog.newly_failed(window) == 3
    old = "set updated_at = now() - interval '11 minutes' where session_id = (select min(session_id::text)::uuid"
    await world.sql(f"update afterturn.ledger_t {old} from afterturn.ledger_t)")
    assert await backlog.newly_failed(window) == 2
    await world.sql("update afterturn.ledger_t set status = 'pending' where stage = 'embedding'")
    assert await backlog.newly_failed(window) == 0
    await world.database.close()


async def test_a_ledger_that_cannot_be_read_degrades(stack: Stack) -> None:
    async def refused() -> int:
        raise ConnectionRefusedError

    found = await counting(stack, refused).ready()
    assert (found.status, found.reasons) == ("degraded", ("ledger: cannot be read",))


async def test_nobody_waits_long_for_a_slow_ledger_and_its_reading_goes_on_for_whoever_asks_next(stack: Stack) -> None:
    readings, may_end = 0, asyncio.Event()

    async def slowly() -> int:
        nonlocal readings
        readings += 1
        await may_end.wait()
        return 2

    health = counting(stack, slowly)
    found = await asyncio.wait_for(health.ready(), PATIENCE_S)
    assert (found.status, found.reasons) == ("degraded", ("ledger: does not answer in time",))
    may_end.set()
    assert "quarantine: 2 more within 10 minutes" in (await health.ready()).reasons
    assert readings == 1


def counting(stack: Stack, newly_failed: Callable[[], Awaitable[int]]) -> ApiHealth:
    counts = LedgerCounts(Ledger(stack.database), newly_failed)
    return ApiHealth(stack.database, stack.notifier, counts, {}, stack.settings, data=stack.data)
