"""The depth of the backlog: our own stages, what is ready, no further than asked."""

from datetime import UTC, datetime, timedelta
from hashlib import md5
from uuid import UUID

import pytest
from sqlalchemy import text

from store.database import Database
from store.ledger.ledger import DEPTH, Depth, read_depths
from store.ledger.stages import OWN, READY_AT_ONCE
from store.memory.turns import TurnStore
from tests.client.loopback import closed_port
from tests.servers import TestPostgres
from tests.store.conftest import new_host, turn
from tests.store.ledger.test_claim_plans import READ, fill
from tests.workers.targets import hand_to

pytestmark = pytest.mark.untouched

#: The one that `fill` fills.
THE_HOST = UUID(md5(b"host", usedforsecurity=False).hexdigest())


async def depth(database: Database, host: UUID, most: int) -> Depth:
    return (await read_depths(database, [host], most))[host]


@pytest.fixture
async def host(lonely: Database) -> UUID:
    return await new_host(lonely)


async def test_rows_that_wait_for_a_gateway_or_for_another_stage_are_not_counted(lonely: Database, host: UUID) -> None:
    assert await depth(lonely, host, 100) == Depth(0, 0.0)
    hour_ago = datetime.now(UTC) - timedelta(hours=1)
    await hand_to(lonely, host, closed_port())
    await TurnStore(lonely, lambda: hour_ago).append(host, [turn("t1", gateway=True), turn("t2")])
    found = await depth(lonely, host, 100)
    assert found.rows == 2 * len(READY_AT_ONCE)
    assert 3600 <= found.oldest_s < 4000
    async with lonely.operator() as connection:
        await connection.execute(text("update ledger_t set status = 'done' where stage <> 'gateway'"))
    assert await depth(lonely, host, 100) == Depth(0, 0.0)


async def test_rows_are_counted_no_further_than_asked(lonely: Database, host: UUID) -> None:
    await TurnStore(lonely, lambda: datetime.now(UTC)).append(host, [turn(f"t{n}") for n in range(5)])
    assert (await depth(lonely, host, 3)).rows == 3


async def test_each_tenant_has_a_depth_of_its_own(lonely: Database, host: UUID) -> None:
    other = await new_host(lonely)
    await TurnStore(lonely, lambda: datetime.now(UTC)).append(host, [turn("t1")])
    found = await read_depths(lonely, [other, host], 100)
    assert [found[one].rows for one in (host, other)] == [len(READY_AT_ONCE), 0]


@pytest.mark.slow
async def test_a_look_at_a_long_ledger_reads_no_more_rows_than_it_counts(
    fresh_database: TestPostgres, lonely: Database
) -> None:
    for stage in OWN:
        await fill(fresh_database, stage, 100)
    async with lonely.operator() as connection:
        arguments = {"hosts": [THE_HOST], "stages": [stage.value for stage in OWN], "most": 10}
        assert (await connection.execute(DEPTH, arguments)).one().waiting == 10
        scans, read = (await connection.execute(READ)).one()
    assert scans == 0
    assert read <= 2 * 10 + 4 * len(OWN)
