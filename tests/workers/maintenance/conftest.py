"""Maintenance on a real database, with a clock that tests move."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest_asyncio

from producers.service.session_summaries import Summariser
from store.erasure import Erasures
from store.maintenance import Consolidation, ExpiryTask, Pruning, Schedule, WordReanalysis
from store.memory.session_summaries import SummaryLimits
from store.memory.turns import TurnStore
from store.recall.jobs import RecallJobs
from tests.servers import TestPostgres
from tests.workers.conftest import World, open_world
from workers.maintenance import Maintainer, Needs, Task, build_tasks
from workers.settings import MaintenanceSettings


@dataclass
class Yard:
    """A world, and the time there: what is put away depends on it."""

    world: World
    ahead: timedelta = timedelta()

    def clock(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def tasks(self, **settings: Any) -> dict[str, Task]:
        database = self.world.database
        turns = TurnStore(database, self.clock)
        needs = Needs(
            Pruning(database),
            RecallJobs(database, self.clock),
            Erasures(database, self.clock),
            MaintenanceSettings(**settings),
            self.clock,
            WordReanalysis(database, settle_s=0.0, page=3),
            ExpiryTask(database, self.clock),
            Consolidation(database, self.clock),
            turns.summaries,
            turns.digests,
            Summariser(turns.summaries, turns.sessions, lambda _host, _bank: SummaryLimits(4)),
        )
        return {task.name: task for task in build_tasks(needs)}

    def maintainer(self, *tasks: Task, worker: str = "w", **more: Any) -> Maintainer:
        return Maintainer(Schedule(self.world.database), tasks, worker, pause_s=0.0, **more)

    async def by_hand(self, name: str, **settings: Any) -> int:
        """Run one task as an operator would; returns how much it put away."""
        told = await self.maintainer().work(self.tasks(**settings)[name], by_hand=True)
        assert told.outcome == "done"
        return told.removed


@pytest_asyncio.fixture(loop_scope="session")
async def yard(fresh_database: TestPostgres) -> AsyncIterator[Yard]:
    opened = await open_world(fresh_database)
    yield Yard(opened)
    await opened.database.close()
