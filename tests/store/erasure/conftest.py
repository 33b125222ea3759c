"""A world with workers, in which things are said, derived and erased."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest_asyncio

from store.erasure import Erasures, ErasureTarget, Kind, Receipt
from tests.servers import TestPostgres
from tests.workers.conftest import HOST, World, now, open_world
from tests.workers.stages import Crew


@dataclass
class Scene:
    """A world, its workers, and the one who erases."""

    world: World
    crew: Crew
    erasures: Erasures

    async def erase(self, kind: Kind, name: str = "", bank: str | None = "default") -> Receipt:
        target = ErasureTarget(kind, None if kind is Kind.USER else bank, name)
        return await self.erasures.run(HOST, await self.erasures.request(HOST, target))

    async def unit_of(self, words: str) -> str:
        """The id of the message that holds these words."""
        query = "select unit_id from afterturn.agent_memory_unit_t where origin = 'message' and content like :words"
        rows = await self.world.sql(query, words=f"%{words}%")
        return str(rows[0].unit_id)


@pytest_asyncio.fixture(loop_scope="session")
async def scene(fresh_database: TestPostgres) -> AsyncIterator[Scene]:
    world = await open_world(fresh_database)
    yield Scene(world, Crew(world), Erasures(world.database, now))
    await world.database.close()
