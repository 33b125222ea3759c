"""The maintainer of a worker process: it runs tasks that are due and that no other process runs.

A run goes batch by batch, each in a short transaction with a pause after it, so that VACUUM keeps up and no call waits.
After every batch the place is saved and the lease extended. A long run is cut off and continued in the next round.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import structlog

from store.maintenance import Schedule, TaskRun
from workers.maintenance.tasks import Task
from workers.metrics import MAINTENANCE_REMOVED, MAINTENANCE_RUNS, MAINTENANCE_SECONDS

log = structlog.get_logger(__name__)

#: How long after its last batch a run cannot be taken over by another worker.
LEASE = timedelta(seconds=60)
#: The longest pause before a failed run is tried again.
FAILED_PAUSE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The outcome of a task: done, cut (there is more), failed, lost, busy (another process runs it) or off.

    `failed`: the task, or a part of it that the run went past.
    """

    task: str
    outcome: str
    removed: int = 0
    seconds: float = 0.0
    why: str | None = None


@dataclass(slots=True)
class Maintainer:
    """The runner of maintenance tasks; a lease keeps two workers from running the same task.

    `every_s`: pause between two looks. `longest_s`: how long a run may take at a time. `pause_s`: pause between two
    batches.
    """

    schedule: Schedule
    tasks: Sequence[Task]
    worker: str
    every_s: float = 5.0
    longest_s: float = 10.0
    pause_s: float = 0.02
    chance: Callable[[], float] = field(default=random.random)

    async def run(self) -> None:
        """Run due tasks at intervals until cancelled; when the schedule cannot be read, log it and go on."""
        while True:
            await asyncio.sleep(self.every_s * (0.5 + self.chance()))
            try:
                await self.look()
            except Exception as error:  # noqa: BLE001 - the next look tries again
                log.warning("maintenance_schedule_unreadable", error=type(error).__name__)

    async def look(self) -> list[TaskOutcome]:
        """Run the tasks that are due, one after the other."""
        known = {task.name: task for task in self.tasks if task.off is None}
        return [await self.work(known[name]) for name in await self.schedule.due(list(known))]

    async def work(self, task: Task, *, by_hand: bool = False) -> TaskOutcome:
        """Run one task. `by_hand`: even if it is not due, and to its end. A failure is in the outcome, not raised."""
        if task.off is not None:
            return TaskOutcome(task.name, "off", why=task.off)
        run = await self.schedule.take(task.name, lease=LEASE, worker=self.worker, by_hand=by_hand)
        if run is None:
            return TaskOutcome(task.name, "busy", why="another worker runs it")
        start = time.monotonic()
        result = await self._batches(task, run, None if by_hand else start + (task.longest_s or self.longest_s))
        pause = _next_pause(task, result.outcome)
        if result.why is not None and result.outcome in {"done", "cut"}:
            result = replace(result, outcome="failed")
        await self.schedule.finish(run, outcome=result.outcome, pause=pause)
        return _count_outcome(replace(result, seconds=time.monotonic() - start))

    async def _batches(self, task: Task, run: TaskRun, until: float | None) -> TaskOutcome:
        """Run batches; `why` of a run that is done or cut is the kind of the last error that a part of the task met."""
        place, removed, failed = run.place, 0, None
        try:
            while True:
                page = await task.step(place)
                place, removed, failed = page.place, removed + page.removed, page.failed or failed
                if not await self.schedule.go_on(run, lease=LEASE, place=place, removed=page.removed):
                    return TaskOutcome(task.name, "lost", removed, why="another worker took it over")
                if place is None:
                    return TaskOutcome(task.name, "done", removed, why=failed)
                if until is not None and time.monotonic() >= until:
                    return TaskOutcome(task.name, "cut", removed, why=failed)
                await asyncio.sleep(self.pause_s)
        except Exception as error:  # noqa: BLE001 - logged and counted, and tried again soon
            log.warning("maintenance_failed", task=task.name, error=type(error).__name__)
            return TaskOutcome(task.name, "failed", removed, why=type(error).__name__)


def _next_pause(task: Task, outcome: str) -> timedelta:
    """Return how long after a run the next one may begin."""
    soon = {"cut": timedelta() if task.longest_s is None else task.every, "failed": min(task.every, FAILED_PAUSE)}
    return soon.get(outcome, task.every)


def _count_outcome(result: TaskOutcome) -> TaskOutcome:
    MAINTENANCE_RUNS.labels(result.task, result.outcome).inc()
    MAINTENANCE_REMOVED.labels(result.task).inc(result.removed)
    MAINTENANCE_SECONDS.labels(result.task).observe(result.seconds)
    return result
