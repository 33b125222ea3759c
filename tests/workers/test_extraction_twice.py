"""What is derived from a turn is in the log at most once, whoever derived it first."""

from datetime import timedelta
from uuid import uuid4

import pytest

from store.ledger.ledger import Claim
from store.ledger.stages import Stage
from store.log.append import append_events
from store.memory.turn_messages import read_messages
from store.replay import verify_log
from tests.workers.conftest import BANK, HOST, World, dialogue
from tests.workers.stages import Crew
from workers.extraction.stage import _derive_all

pytestmark = pytest.mark.law("L2")

STATE = """
    select bank_id, aggregate_key, aggregate_version, event_type from afterturn.event_store_t
     where aggregate_type <> 'AgentSessionHistory' order by position"""


async def told(world: World) -> None:
    said = dialogue("My name is Karl Berger. I live in Kyoto.", "Hello Karl, how is Kyoto?")
    await world.append("s", "t", messages=said, gateway=False)


async def claimed(world: World, worker: str) -> list[Claim]:
    return await world.ledger.claim(
        Stage.EXTRACTION, streams=1, rows=16, lease=timedelta(seconds=30), worker=worker, max_attempts=5
    )


async def test_a_reader_that_comes_second_takes_what_is_there_for_its_own(world: World) -> None:
    await told(world)
    [held] = await claimed(world, "older")
    turns = await read_messages(world.database, HOST, [(BANK, row.turn_id) for row in held.rows])
    [derived] = _derive_all(HOST, held.rows, turns).values()
    # Another version of the rules: what it found is the same, the events are its own.
    events = [{**one, "id": str(uuid4())} for one in (*derived.entities.values(), *derived.events)]
    async with world.database.tenant(HOST) as connection:
        await append_events(connection, HOST, events)
    before = await world.sql(STATE)
    await Crew(world).runner(Stage.EXTRACTION)._work_piece([held])
    assert await world.statuses(Stage.EXTRACTION) == ["done"]
    assert await world.sql(STATE) == before
    await Crew(world).drain()
    assert (await verify_log(world.postgres.owner_url)).equal


async def test_one_who_finishes_late_adds_nothing_and_fails_nothing(world: World) -> None:
    await told(world)
    slow = await claimed(world, "slow")
    await world.expire_leases()
    crew = Crew(world)
    await crew.drain()
    before = await world.sql(STATE)
    await crew.runner(Stage.EXTRACTION)._work_piece(slow)
    assert await world.statuses(Stage.EXTRACTION) == ["done"]
    assert await world.sql(STATE) == before
    assert (await verify_log(world.postgres.owner_url)).equal
