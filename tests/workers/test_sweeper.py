"""The sweeper finds work that no worker was notified of, and needs no Redis to get it done."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import pytest
from afterturn_client.contract.freshness import UNWRITTEN

from producers.service.recall_coordinator import RecallCoordinator
from store.ledger.freshness import Waiter
from store.ledger.stages import READY_AT_ONCE, Stage
from store.recall.jobs import RecallJobs
from store.recall.query import RecallAnswer, RecallQuery
from tests.client.loopback import closed_port
from tests.patience import PATIENCE_S, until
from tests.workers.conftest import HOST, World, now
from tests.workers.stages import Crew
from workers.recall import RecallWork
from workers.sweeper import Sweeper

QUESTION = {"bank": "default", "query": "Where is Anna?"}


@dataclass
class Recorded:
    """What the sweeper notified workers of; `fault` is why the broker does not take it."""

    fault: str = ""
    stages: list[Stage] = field(default_factory=list)
    jobs: list[tuple[UUID, UUID]] = field(default_factory=list)

    async def deliver(self, stages: Iterable[Stage], jobs: Iterable[tuple[UUID, UUID]]) -> str:
        self.stages.extend(stages)
        self.jobs.extend(jobs)
        return self.fault


@dataclass
class Answers:
    """A recaller that finds nothing, or fails; with `may_end` not set it has `begun` and does neither until it is."""

    error: BaseException | None = None
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event | None = None

    async def recall(self, host: UUID, query: RecallQuery) -> RecallAnswer:
        del host, query
        self.begun.set()
        if self.may_end is not None:
            await self.may_end.wait()
        if self.error is not None:
            raise self.error
        return RecallAnswer((), UNWRITTEN)


def sweeper(world: World, recorded: Recorded) -> Sweeper:
    crew = Crew(world)
    here = {stage: crew.runner(stage).drain for stage in Stage}
    answer = work(world, Answers()).answer
    return Sweeper(world.ledger, RecallJobs(world.database, now), recorded, here, answer, every_s=0.05)


@pytest.mark.law("L1")
async def test_lost_notifications_are_made_good(world: World) -> None:
    await world.hand_to(closed_port())
    await world.append()
    recorded = Recorded()
    await sweeper(world, recorded).sweep()
    assert sorted(recorded.stages) == sorted([Stage.GATEWAY, *READY_AT_ONCE])


async def test_a_stage_is_rung_for_again_when_a_lease_ran_out(world: World) -> None:
    await world.append()
    await world.ledger.claim(Stage.EXTRACTION, streams=9, rows=9, lease=timedelta(hours=1), worker="w", max_attempts=5)
    recorded = Recorded()
    await sweeper(world, recorded).sweep()
    assert Stage.EXTRACTION not in recorded.stages
    await world.expire_leases()
    await sweeper(world, recorded).sweep()
    assert Stage.EXTRACTION in recorded.stages


async def test_nothing_to_do_is_no_ring(world: World) -> None:
    await world.append()
    await Crew(world).drain()
    recorded = Recorded()
    await sweeper(world, recorded).sweep()
    assert recorded.stages == []


async def test_what_was_not_notified_the_sweeper_has_the_work_done_here(world: World) -> None:
    await world.append()
    one = sweeper(world, Recorded(fault="OutOfMemoryError"))
    for _ in range(3):
        await one.sweep()
        for work in list(one._working):
            await work
    for stage in Stage:
        assert set(await world.statuses(stage)) <= {"done", "skipped"}


async def test_waiting_recall_jobs_are_asked_for_again_and_expired_ones_are_not(world: World) -> None:
    jobs = RecallJobs(world.database, now)
    waiting, _ = await jobs.open(HOST, QUESTION, timedelta(minutes=5))
    await jobs.open(HOST, {"bank": "default", "query": "Where is Xanthippe?"}, timedelta(seconds=-1))
    recorded = Recorded()
    await sweeper(world, recorded).sweep()
    assert recorded.jobs == [(HOST, waiting)]


async def test_what_was_not_notified_the_sweeper_has_recall_jobs_answered_here(world: World) -> None:
    jobs = RecallJobs(world.database, now)
    asked = [
        (await jobs.open(HOST, {"bank": "default", "query": name}, timedelta(minutes=5)))[0] for name in ("Anna", "Ben")
    ]
    one = sweeper(world, Recorded(fault="OutOfMemoryError"))
    await one.sweep()
    await asyncio.gather(*one._working)
    assert [(await jobs.read(HOST, job)).status for job in asked] == ["done", "done"]


async def at_once() -> None:
    """A model that needs no loading."""


def work(world: World, answers: Answers, lease: timedelta = timedelta(seconds=30)) -> RecallWork:
    recalls = RecallCoordinator(world.database, answers, Waiter(world.database))
    return RecallWork(RecallJobs(world.database, now), recalls, lease, at_once)


async def test_a_recall_job_is_answered_once_however_often_it_is_asked_for(world: World) -> None:
    jobs = RecallJobs(world.database, now)
    job, _ = await jobs.open(HOST, QUESTION, timedelta(minutes=5))
    for _ in range(3):
        await work(world, Answers()).answer(HOST, job)
    assert (await jobs.read(HOST, job)).status == "done"
    rows = await world.sql("select attempts from afterturn.recall_job_t")
    assert [row.attempts for row in rows] == [1]


@pytest.mark.parametrize("error", [TimeoutError(), asyncio.CancelledError()])
async def test_a_recall_job_that_is_interrupted_waits_for_the_next_sweep_and_not_for_its_lease(
    world: World, error: BaseException
) -> None:
    jobs = RecallJobs(world.database, now)
    job, _ = await jobs.open(HOST, QUESTION, timedelta(minutes=5))
    with suppress(asyncio.CancelledError):
        await work(world, Answers(error)).answer(HOST, job)
    recorded = Recorded()
    await sweeper(world, recorded).sweep()
    assert recorded.jobs == [(HOST, job)]
    await work(world, Answers()).answer(*recorded.jobs[0])
    assert (await jobs.read(HOST, job)).status == "done"
    assert [row.attempts for row in await world.sql("select attempts from afterturn.recall_job_t")] == [1]


async def test_a_recall_that_takes_longer_than_a_lease_keeps_its_job(world: World) -> None:
    jobs = RecallJobs(world.database, now)
    job, _ = await jobs.open(HOST, QUESTION, timedelta(minutes=5))
    answers = Answers(may_end=asyncio.Event())
    answering = asyncio.create_task(work(world, answers, timedelta(seconds=0.3)).answer(HOST, job))
    await answers.begun.wait()
    [(first,)] = await world.sql("select lease_until from afterturn.recall_job_t")

    async def renewed() -> bool:
        return bool((await world.sql("select lease_until > :first from afterturn.recall_job_t", first=first))[0][0])

    await until(renewed, "the lease was renewed")
    assert answers.may_end is not None
    answers.may_end.set()
    await answering
    assert (await jobs.read(HOST, job)).status == "done"


@asynccontextmanager
async def at_a_job(world: World, may_end: asyncio.Event) -> AsyncGenerator[tuple[UUID, RecallWork]]:
    """Lend a recall job and who is answering it; the answer may come when `may_end` is set, and has in the end."""
    job, _ = await RecallJobs(world.database, now).open(HOST, QUESTION, timedelta(minutes=5))
    answers = Answers(may_end=may_end)
    working = work(world, answers)
    answering = asyncio.create_task(working.answer(HOST, job))
    await answers.begun.wait()
    yield job, working
    await answering


async def test_a_worker_that_stops_gives_back_the_recall_job_it_was_at_and_takes_no_other(world: World) -> None:
    async with at_a_job(world, asyncio.Event()) as (job, stopping):
        await stopping.stop(0.0)
    await stopping.answer(HOST, job)
    rows = await world.sql("select status, attempts, lease_until from afterturn.recall_job_t")
    assert [tuple(row) for row in rows] == [("pending", 0, None)]


async def test_a_worker_that_stops_lets_an_answer_end_that_comes_soon(world: World) -> None:
    may_end = asyncio.Event()
    async with at_a_job(world, may_end) as (job, stopping):
        ended = asyncio.create_task(stopping.stop(PATIENCE_S))
        may_end.set()
    await ended
    assert (await RecallJobs(world.database, now).read(HOST, job)).status == "done"


async def test_a_recall_job_that_cannot_be_answered_fails_with_a_category(world: World) -> None:
    jobs = RecallJobs(world.database, now)
    job, _ = await jobs.open(HOST, QUESTION, timedelta(minutes=5))
    await work(world, Answers(ValueError("what was asked"))).answer(HOST, job)
    found = await jobs.read(HOST, job)
    assert (found.status, found.error_category, found.result) == ("failed", "internal", None)
