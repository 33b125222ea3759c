"""The sweeper: reads the ledger every few seconds and notifies workers of ready work that they missed."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

import structlog

from store.derived.pending_words import PendingWordsIndexer
from store.ledger.ledger import Ledger
from store.ledger.stages import Stage
from store.recall.jobs import RecallJobs
from workers.metrics import NOTIFICATIONS, SWEEPS

log = structlog.get_logger(__name__)

#: Seconds that one sweep may spend on indexing pending words.
INDEX_WORDS_S = 1.0


class WorkNotifier(Protocol):
    """What a sweeper asks of a `Notifier`."""

    async def deliver(self, stages: Iterable[Stage], jobs: Iterable[tuple[UUID, UUID]]) -> str:
        """Notify the workers of these stages and recall jobs now; return '' or why it was not written."""


@dataclass(slots=True)
class Sweeper:
    """The sweeper of a worker process; several may sweep at once.

    It does the work itself whenever a notification was not written, since the broker is away or refuses writes:
    `here` drains a stage in this process, `answer` answers a recall job.
    """

    ledger: Ledger
    jobs: RecallJobs
    notifier: WorkNotifier
    here: Mapping[Stage, Callable[[], Awaitable[None]]]
    answer: Callable[[UUID, UUID], Awaitable[None]]
    every_s: float
    words: PendingWordsIndexer | None = None
    chance: Callable[[], float] = field(default=random.random)
    _working: set[asyncio.Future[None]] = field(default_factory=set)
    _answering: "asyncio.Future[None] | None" = None

    async def run(self) -> None:
        """Sweep until cancelled. A sweep that fails is counted and followed by the next."""
        try:
            while True:
                await asyncio.sleep(self.every_s * (0.5 + self.chance()))
                await self._safely()
        finally:
            for work in self._working:
                work.cancel()

    async def sweep(self) -> list[Stage]:
        """Notify once for every stage with ready work that is not leased, and for every recall job that waits.

        Returns these stages.
        """
        stages = await self.ledger.find_ready_stages()
        jobs = await self.jobs.waiting()
        for stage in stages:
            NOTIFICATIONS.labels(stage.value).inc()
        if (stages or jobs) and (fault := await self.notifier.deliver(stages, jobs)):
            log.warning("notification_not_written", error=fault, stages=len(stages), jobs=len(jobs))
            self._do_here(stages, jobs)
        if self.words is not None:
            await self.words.index(INDEX_WORDS_S)
        return stages

    async def _safely(self) -> None:
        try:
            await self.sweep()
        except Exception as error:  # noqa: BLE001 - an error of any kind: the next sweep tries again
            SWEEPS.labels("failed").inc()
            log.warning("sweep_failed", error=type(error).__name__)
        else:
            SWEEPS.labels("ok").inc()

    def _do_here(self, stages: Sequence[Stage], jobs: Sequence[tuple[UUID, UUID]]) -> None:
        for stage in self.here.keys() & set(stages):
            self._work_here(self.here[stage]())
        if self._answering is None or self._answering.done():
            self._answering = self._work_here(self._answer_here(jobs))

    def _work_here(self, coming: Awaitable[None]) -> "asyncio.Future[None]":
        work = asyncio.ensure_future(coming)
        self._working.add(work)
        work.add_done_callback(self._working.discard)
        return work

    async def _answer_here(self, jobs: Sequence[tuple[UUID, UUID]]) -> None:
        """Answer recall jobs one after the other; a job that another worker has answered costs one query."""
        for host, job in jobs:
            await self.answer(host, job)
