"""After a swap or a repair, all that is derived of a bank is what its rebuild makes of it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from store import derived
from store.replay import Scope, repair, swap, verify
from tests.servers import TestPostgres
from tests.workers.conftest import BANK, HOST, World, dialogue, open_world
from tests.workers.stages import Crew

pytestmark = pytest.mark.law("L5")

State = dict[str, list[tuple[Any, ...]]]


@pytest_asyncio.fixture(loop_scope="session")
async def told(fresh_database: TestPostgres) -> AsyncIterator[World]:
    """A bank in which people, places and facts were named and worked through."""
    world = await open_world(fresh_database)
    for n, home in enumerate(("Kyoto", "Lisbon", "Porto")):
        words = f"My name is Karl Berger. I live in {home}. Karl and Ann Moore met in {home}."
        await world.append("s", f"t{n}", messages=dialogue(words, f"Ann Moore likes {home}."))
    await Crew(world).drain()
    yield world
    await world.database.close()


async def state(world: World) -> State:
    async with world.database.tenant(HOST) as connection:
        return await derived.contents(connection, HOST, BANK)


async def rebuilt(world: World) -> State:
    async with world.database.tenant(HOST) as connection:
        await derived.rebuild(connection, HOST, BANK)
        return await derived.contents(connection, HOST, BANK)


async def repaired(world: World) -> None:
    await repair(world.postgres.owner_url, Scope(HOST, BANK))


async def swapped(world: World) -> None:
    await swap(world.postgres.owner_url)


DAMAGE = (
    "update afterturn.agent_memory_unit_t set content = 'else' where origin = 'message'",
    "update afterturn.agent_memory_unit_t set metadata = metadata - 'value', active = origin = 'message'",
    "update afterturn.agent_memory_unit_entity_t set name = 'Nobody', mentions = 7, counted = false",
    "update afterturn.agent_memory_entity_t set canonical_name = 'Nobody', active = false, mention_count = 3",
    "delete from afterturn.agent_memory_entity_cooccur_t",
    "truncate afterturn.agent_memory_bank_t cascade",
)
#: What no digest and no check looks at: a repair makes it anew, whatever stands there.
UNSEEN = (
    "delete from afterturn.entity_profile_t",
    "delete from afterturn.fact_t",
    "update afterturn.entity_name_t set mentions = 9",
    "update afterturn.term_t set df = 9",
)


async def mended(told: World, mend: Callable[[World], Awaitable[None]], *damage: str) -> None:
    before = await state(told)
    assert all(before.values())
    for statement in damage:
        await told.sql(statement)
    await mend(told)
    after = await state(told)
    assert after == before
    assert await rebuilt(told) == after
    report = await verify(told.postgres.owner_url)
    assert report.equal
    assert [one.name for one in report.derived if not one.equal] == []


async def test_a_repair_makes_anew_what_hangs_on_rows_that_were_wrong(told: World) -> None:
    for damage in DAMAGE:
        await mended(told, repaired, damage)


async def test_a_swap_makes_anew_what_hangs_on_rows_that_were_wrong(told: World) -> None:
    for damage in DAMAGE[1:]:
        await mended(told, swapped, damage)


async def test_a_repair_makes_anew_what_only_derived_state_had_wrong(told: World) -> None:
    await mended(told, repaired, *UNSEEN)
