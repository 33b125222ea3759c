"""Freshness never pretends: what a read shows, and how far the stages have come."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from store import identity
from store.database import Database
from store.errors import PositionBeyondLog
from store.ledger.freshness import Freshness, Waiter, read_freshness
from store.ledger.ledger import Ledger, Outcome, close_claim
from store.ledger.stages import OWN, Stage
from store.memory.turns import Appended, TurnStore
from tests.store.conftest import NOON, new_host, turn


@pytest.fixture
async def host(lonely: Database) -> UUID:
    return await new_host(lonely)


@pytest.fixture
def turns(lonely: Database) -> TurnStore:
    return TurnStore(lonely, lambda: NOON)


async def read(database: Database, host: UUID, bank: str = "home") -> Freshness:
    async with database.tenant(host) as connection:
        return await read_freshness(connection, host, identity.bank_id(host, bank))


async def pass_stage(database: Database, stage: Stage) -> None:
    ledger = Ledger(database)
    while claims := await ledger.claim(
        stage, streams=50, rows=50, lease=timedelta(minutes=5), worker="w", max_attempts=5
    ):
        for claim in claims:
            async with database.tenant(claim.host_id) as connection:
                await close_claim(connection, claim, [Outcome(row.item_id) for row in claim.rows])


async def test_a_bank_nobody_wrote_to_is_all_zero(lonely: Database, host: UUID) -> None:
    assert await read(lonely, host) == Freshness(0, 0, 0, 0, 0)


async def test_positions_follow_the_stages(lonely: Database, turns: TurnStore, host: UUID) -> None:
    first, second = await turns.append(host, [turn("t1"), turn("t2")])
    assert isinstance(first, Appended)
    assert isinstance(second, Appended)
    fresh = await read(lonely, host)
    assert (fresh.position, fresh.pending) == (second.position, 2 * len(OWN))
    assert fresh.embedded == fresh.extracted == fresh.projected == first.position - 1
    await pass_stage(lonely, Stage.EXTRACTION)
    fresh = await read(lonely, host)
    assert (fresh.extracted, fresh.projected) == (second.position, first.position - 1)
    assert fresh.pending == 2 * len(OWN) - 2


async def test_waiting_ends_when_every_stage_has_passed(lonely: Database, turns: TurnStore, host: UUID) -> None:
    [answer] = await turns.append(host, [turn()])
    assert isinstance(answer, Appended)
    waiter, bank = Waiter(lonely), identity.bank_id(host, "home")
    assert not await waiter.passed(host, bank, answer.position, 50)
    waiting = asyncio.create_task(waiter.passed(host, bank, answer.position, 60_000))
    for stage in OWN:
        await pass_stage(lonely, stage)
    assert await waiting


async def test_a_position_that_was_never_issued_is_an_error(lonely: Database, turns: TurnStore, host: UUID) -> None:
    [answer] = await turns.append(host, [turn()])
    assert isinstance(answer, Appended)
    assert await Waiter(lonely).shown(host, answer.position, 0)
    with pytest.raises(PositionBeyondLog):
        await Waiter(lonely).shown(host, answer.position + 1_000_000, 0)


@pytest.mark.law("L6")
async def test_a_position_of_another_host_is_not_shown_and_not_explained(
    lonely: Database, turns: TurnStore, host: UUID
) -> None:
    [answer] = await turns.append(host, [turn()])
    assert isinstance(answer, Appended)
    assert not await Waiter(lonely).shown(await new_host(lonely), answer.position, 0)
