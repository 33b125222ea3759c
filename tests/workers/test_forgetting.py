"""A unit is forgotten with the facts that nothing else says, or alone."""

from collections.abc import Sequence
from uuid import UUID

import pytest

from store.erasure import Erasures, ErasureTarget, Kind
from store.errors import NotFound
from store.memory.units import Units
from store.replay import verify_log
from tests.workers.conftest import HOST, World, dialogue, now
from tests.workers.stages import Crew

SAID = "My name is Karl and I live in Porto."


async def told(world: World) -> tuple[UUID, UUID, list[UUID]]:
    """Say two facts in one message; returns it, the answer to it, and the facts."""
    await world.append(messages=dialogue(SAID, "I see."))
    await Crew(world).drain()
    rows = await world.sql(
        "select unit_id, origin from afterturn.agent_memory_unit_t order by seq nulls last, position"
    )
    message, answer, *facts = [row.unit_id for row in rows]
    assert len(facts) == 2
    return message, answer, facts


async def living(world: World) -> set[UUID]:
    rows = await world.sql("select unit_id from afterturn.agent_memory_unit_t where active")
    return {row.unit_id for row in rows}


async def drawn_from(world: World, fact: UUID, sources: Sequence[UUID]) -> None:
    await world.sql(
        "update afterturn.agent_memory_unit_t set source_memory_ids = :sources where unit_id = :fact",
        fact=fact,
        sources=list(sources),
    )


async def test_facts_may_stay_and_can_be_forgotten_later(world: World) -> None:
    message, answer, facts = await told(world)
    assert (await Units(world.database, now).forget(HOST, "default", message, with_facts=False)).facts_forgotten == 0
    assert await living(world) == {answer, *facts}
    done = await Units(world.database, now).forget(HOST, "default", message)
    assert done.facts_forgotten == 2
    assert await living(world) == {answer}
    for with_facts in (False, True):
        with pytest.raises(NotFound):
            await Units(world.database, now).forget(HOST, "default", message, with_facts=with_facts)
    await Crew(world).drain()
    assert await world.sql("select 1 from afterturn.fact_t") == []
    report = await verify_log(world.postgres.owner_url)
    assert report.equal
    assert all(one.equal for one in report.derived)


async def test_a_fact_that_something_else_says_stays_with_what_was_drawn_from_it(world: World) -> None:
    message, answer, (first, second) = await told(world)
    await drawn_from(world, first, [message, answer])
    await drawn_from(world, second, [first])
    assert (await Units(world.database, now).forget(HOST, "default", message, with_facts=True)).facts_forgotten == 0
    assert await living(world) == {answer, first, second}
    await Units(world.database, now).forget(HOST, "default", answer, with_facts=True)
    assert await living(world) == set()


async def test_what_an_erasure_takes_forgetting_with_facts_takes(world: World) -> None:
    message, answer, (first, second) = await told(world)
    await drawn_from(world, second, [first])
    erasures = Erasures(world.database, now)
    counted = await erasures.estimate(HOST, ErasureTarget(Kind.UNIT, "default", str(message)))
    done = await Units(world.database, now).forget(HOST, "default", message, with_facts=True)
    assert done.facts_forgotten == counted.counts["facts"] == 2
    assert await living(world) == {answer}
