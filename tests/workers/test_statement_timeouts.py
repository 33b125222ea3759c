"""A statement whose time is over is an attempt, and its work ends in quarantine; a database that is away is none."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import pytest
import pytest_asyncio
from sqlalchemy import text

from store import database
from store.database import Database
from store.database_outage import is_outage, is_statement_timeout
from store.errors import StatementTimeout
from store.ledger.ledger import Claim
from store.ledger.stages import Stage
from tests.servers import TestPostgres
from tests.workers.conftest import HOST, World, open_world
from tests.workers.stages import Crew
from workers.stage_work import ClaimSize, Worked

#: Sessions of an earlier test would wait as long as they were told.
pytestmark = pytest.mark.untouched

#: Longer than any statement of these tests may take.
FOR_EVER = "select pg_sleep(3600)"
ATTEMPTS = 3
FEW = ClaimSize(streams=4, rows=3)


@dataclass
class Sleeper:
    """A stage whose statement takes for ever; `before` it, another."""

    database: Database
    before: str = "select 1"
    stage: Stage = Stage.EXTRACTION
    claim_size: ClaimSize = FEW

    async def work(self, claims: Sequence[Claim]) -> Worked:
        async with self.database.tenant(HOST) as connection:
            await connection.execute(text(self.before))
            await connection.execute(text(FOR_EVER))
        raise AssertionError(claims)


@pytest_asyncio.fixture(loop_scope="session")
async def impatient(fresh_database: TestPostgres, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """A world whose statements may take a moment."""
    monkeypatch.setattr(database, "COMMAND_TIMEOUT_S", 1.0)
    opened = await open_world(fresh_database)
    yield opened
    await opened.database.close()


@pytest.mark.law("L1")
@pytest.mark.parametrize("before", ["select 1", "set local statement_timeout = '100ms'"], ids=["driver", "server"])
async def test_work_whose_statement_takes_too_long_ends_in_quarantine(impatient: World, before: str) -> None:
    await impatient.append("s", "t")
    crew = Crew(impatient, max_attempts=ATTEMPTS)
    for _ in range(ATTEMPTS):
        await crew.runner(Stage.EXTRACTION, Sleeper(impatient.database, before)).drain()
        await impatient.forget_backoff()
    [row] = await impatient.sql(
        "select status, attempts, error_category, error_reason from afterturn.ledger_t where stage = 'extraction'"
    )
    assert tuple(row) == ("dead", ATTEMPTS, "timeout", "a statement was cancelled when its time was over")
    # The others go on: the same connections serve what does not take too long.
    await impatient.append("s", "u")
    await crew.drain(Stage.EXTRACTION)
    assert await impatient.statuses(Stage.EXTRACTION) == ["dead", "done"]


async def test_what_took_too_long_is_told_from_a_database_that_is_away(impatient: World) -> None:
    with pytest.raises(StatementTimeout) as late:
        async with impatient.database.tenant(HOST) as connection:
            await connection.execute(text(FOR_EVER))
    assert (is_statement_timeout(late.value), is_outage(late.value)) == (True, False)
    with pytest.raises(Exception, match="terminating connection") as ended:
        async with impatient.database.tenant(HOST) as connection:
            await connection.execute(text("select pg_terminate_backend(pg_backend_pid())"))
    assert (is_statement_timeout(ended.value), is_outage(ended.value)) == (False, True)
