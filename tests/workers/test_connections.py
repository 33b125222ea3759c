"""How many connections the stages of one worker take: each has the server plan every statement for itself."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import pytest_asyncio
from sqlalchemy import QueuePool
from sqlalchemy.ext.asyncio import AsyncEngine

from store.database import Database
from store.ledger.ledger import Claim, Ledger
from store.ledger.stages import Stage
from tests.servers import TestPostgres
from tests.workers.conftest import World, settings_of
from tests.workers.stages import Crew
from workers.extraction.stage import ExtractionStage
from workers.projection import ProjectionStage

BANKS = 6


@pytest_asyncio.fixture(loop_scope="session")
async def unused(fresh_database: TestPostgres) -> AsyncIterator[Database]:
    """A database on which nobody has opened a connection yet."""
    database = Database(settings_of(fresh_database))
    yield database
    await database.close()


@pytest_asyncio.fixture(loop_scope="session")
async def banks(world: World) -> None:
    for n in range(BANKS):
        await world.append(f"s{n}", "t", bank=f"bank-{n}")


def opened(engine: AsyncEngine) -> int:
    pool = engine.sync_engine.pool
    assert isinstance(pool, QueuePool)
    return pool.checkedin()


async def claimed(ledger: Ledger, stage: Stage) -> list[Claim]:
    lease = timedelta(seconds=30)
    return await ledger.claim(stage, streams=BANKS, rows=10, lease=lease, worker="test", max_attempts=5)


@pytest.mark.usefixtures("banks")
async def test_stages_of_banks_are_at_two_of_them_at_a_time_however_many_were_claimed(
    world: World, unused: Database
) -> None:
    crew = Crew(world)
    for stage in (ExtractionStage(unused), ProjectionStage(unused)):
        await crew.runner(stage.stage, stage).drain()
        assert await world.statuses(stage.stage) == ["done"] * BANKS
        assert opened(unused._app) <= 2


@pytest.mark.usefixtures("banks")
async def test_a_process_claims_for_one_stage_after_the_other(unused: Database) -> None:
    ledger = Ledger(unused)
    claims = await asyncio.gather(*(claimed(ledger, stage) for stage in (Stage.EXTRACTION, Stage.EMBEDDING)))
    assert [len(of_stage) for of_stage in claims] == [BANKS, BANKS]
    assert opened(unused._operator) == 1
