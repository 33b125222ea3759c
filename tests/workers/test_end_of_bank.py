"""A bank that ends takes its work with it: nothing waits for ever, and a late result is not written."""

import asyncio
from datetime import timedelta

import pytest

from store import identity
from store.ledger.freshness import read_freshness
from store.ledger.stages import OWN, Stage
from store.log.append import append_events
from store.log.catalog import EventType
from store.log.envelope import Origin, build_offer
from store.replay import verify_log
from tests.workers.conftest import BANK, HOST, World, now
from tests.workers.stages import Crew, held

UNDONE = "select stage, bank_id from afterturn.ledger_t where undone"
MADE = """
    select (select count(*) from afterturn.unit_vector_t) + (select count(*) from afterturn.posting_t)
         + (select count(*) from afterturn.unit_word_t) + (select count(*) from afterturn.agent_memory_unit_t
             where active) + (select count(*) from afterturn.agent_memory_entity_t where active) as n"""


async def end_bank(world: World) -> None:
    origin = Origin(HOST, BANK, identity.user_id(HOST, None), now())
    async with world.database.tenant(HOST) as connection:
        await append_events(connection, HOST, [build_offer(origin, EventType.BANK_DELETED, (), {}, nth="2")])


async def pending(world: World) -> int:
    async with world.database.tenant(HOST) as connection:
        return (await read_freshness(connection, HOST, BANK)).pending


@pytest.mark.law("L1")
async def test_what_waits_for_a_deleted_bank_is_skipped_and_says_why(world: World) -> None:
    await world.append("s", "t1")
    await world.append("s", "t2")
    await world.append("s", "kept", bank="other")
    assert await pending(world) == 2 * len(OWN)
    await end_bank(world)
    assert await pending(world) == 0
    rows = await world.sql("select distinct status, error_category from afterturn.ledger_t where bank_id = :b", b=BANK)
    assert [tuple(row) for row in rows] == [("skipped", "deleted")]
    other = identity.bank_id(HOST, "other")
    assert {row.bank_id for row in await world.sql(UNDONE)} == {other}
    assert {seen.counts["pending"] for seen in (await world.ledger.gauges()).values()} <= {0, 1}


@pytest.mark.law("L2")
@pytest.mark.parametrize("stage", [Stage.EXTRACTION, Stage.EMBEDDING, Stage.PROJECTION])
async def test_a_worker_that_held_a_claim_ends_without_harm(world: World, stage: Stage) -> None:
    await world.append("s", "t", gateway=False)
    crew = Crew(world)
    if stage is Stage.PROJECTION:
        await crew.drain(Stage.EXTRACTION, Stage.EMBEDDING)
    claims = await world.ledger.claim(
        stage, streams=1, rows=16, lease=timedelta(seconds=30), worker="slow", max_attempts=5
    )
    assert claims
    await end_bank(world)
    await crew.runner(stage)._work_piece(claims)
    assert await world.sql(UNDONE) == []
    assert await world.sql("select 1 from afterturn.claim_t") == []
    assert (await world.sql(MADE))[0].n == 0
    assert (await verify_log(world.postgres.owner_url)).equal


async def test_a_bank_that_ends_while_vectors_are_made_gets_none_and_may_begin_again(world: World) -> None:
    await world.append("s", "t", gateway=False)
    crew = Crew(world, held())
    embedding = asyncio.create_task(crew.drain(Stage.EMBEDDING))
    await crew.embedder.begun.wait()
    await end_bank(world)
    crew.embedder.may_end.set()
    await embedding
    assert (await world.sql(MADE))[0].n == 0
    await world.append("s", "again", gateway=False)
    await crew.drain()
    assert await world.sql(UNDONE) == []
    assert (await world.sql("select count(*) as n from afterturn.unit_vector_t"))[0].n == 2
    report = await verify_log(world.postgres.owner_url)
    assert report.equal
    assert [one.name for one in report.derived if not one.equal] == []
