"""Freshness never pretends: what a read shows, and how far the stages have come."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest
from afterturn_client.contract.freshness import UNWRITTEN, Freshness
from sqlalchemy import text

from store import identity
from store.database import Database
from store.errors import PositionBeyondLog
from store.ledger.freshness import Waiter, fetch_freshness, read_freshness
from store.ledger.ledger import Ledger, Outcome, close_claim
from store.ledger.stages import OWN, Stage
from store.memory.turns import Appended, TurnStore
from store.memory.units import Units
from tests.generations import add_retired, make_generation_live
from tests.store.conftest import NOON, new_host, turn

VECTORS = text("""
    insert into afterturn.unit_vector_t (host_id, bank_id, unit_id, chunk, generation, embedding)
    select u.host_id, u.bank_id, u.unit_id, 0, :generation, cast(array_fill(0.5, array[384]) as public.halfvec)
      from afterturn.agent_memory_unit_t u where u.host_id = :host""")


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
    assert await read(lonely, host) == UNWRITTEN


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


@pytest.mark.parametrize("change", ["correction", "pin", "unpin"])
async def test_a_change_of_a_unit_is_waited_for_like_a_turn(
    lonely: Database, turns: TurnStore, host: UUID, change: str
) -> None:
    [answer] = await turns.append(host, [turn()])
    assert isinstance(answer, Appended)
    for stage in OWN:
        await pass_stage(lonely, stage)
    bank, units = identity.bank_id(host, "home"), Units(lonely, lambda: NOON)
    unit = identity.unit_id(identity.turn_id(identity.session_id(bank, "s1"), "t1"), 0)
    if change == "correction":
        done = await units.correct(host, "home", unit, "It rained.")
    else:
        done = await units.pin(host, "home", unit, pinned=True)
        if change == "unpin":
            await pass_stage(lonely, Stage.EMBEDDING)
            done = await units.pin(host, "home", unit, pinned=False)
    assert done.changed
    waiter = Waiter(lonely)
    assert not await waiter.passed(host, bank, done.position, 0)
    fresh = await fetch_freshness(lonely, host, bank)
    assert (fresh.position, fresh.embedded) == (done.position, done.position - 1)
    for stage in OWN:
        await pass_stage(lonely, stage)
    assert await waiter.passed(host, bank, done.position, 0)
    assert (await fetch_freshness(lonely, host, bank)).pending == 0


async def test_after_a_change_of_the_model_texts_without_its_vectors_are_not_embedded(
    lonely: Database, turns: TurnStore, host: UUID
) -> None:
    first, second = await turns.append(host, [turn("t1"), turn("t2")])
    assert isinstance(first, Appended)
    assert isinstance(second, Appended)
    for stage in OWN:
        await pass_stage(lonely, stage)
    bank, waiter = identity.bank_id(host, "home"), Waiter(lonely)
    await embed(lonely, host, generation=1)
    await make_generation_live(lonely, 1)
    assert (await fetch_freshness(lonely, host, bank)).embedded == second.position
    await make_generation_live(lonely, 2)
    await add_retired(lonely, 1)
    assert (await fetch_freshness(lonely, host, bank)).embedded == first.position - 1
    assert not await waiter.passed(host, bank, second.position, 0)
    await embed(lonely, host, generation=2)
    assert (await fetch_freshness(lonely, host, bank)).embedded == second.position
    assert await waiter.passed(host, bank, second.position, 0)


async def embed(database: Database, host: UUID, generation: int) -> None:
    """Have a vector of every unit."""
    async with database.tenant(host) as connection:
        await connection.execute(VECTORS, {"host": host, "generation": generation})
