"""Each task runs once for all workers, whoever is killed, late or in a hurry."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from structlog.testing import capture_logs

from store.maintenance import PrunedBatch, Schedule
from tests.patience import PATIENCE_S, until
from tests.workers.maintenance.conftest import Yard
from workers.maintenance import Task

HOUR = timedelta(hours=1)
EXPIRE = "update public.afterturn_maintenance set lease_until = now() - interval '1 second'"
RUN = "select outcome, removed, coalesce(lease_until > now(), false) from public.afterturn_maintenance"
DUE = "update public.afterturn_maintenance set next_run = now() - interval '5 hours'"


def task(step: Callable[[str | None], Awaitable[PrunedBatch]], name: str = "tidy", **more: Any) -> Task:
    async def nothing() -> int:
        return 0

    return Task(name, HOUR, step, nothing, **more)


class Steps:
    """Batches that note where they began, and put one thing away each."""

    def __init__(self, pages: int = 1) -> None:
        self.pages = pages
        self.places: list[str | None] = []
        self.begun = asyncio.Event()

    async def __call__(self, place: str | None) -> PrunedBatch:
        self.places.append(place)
        self.begun.set()
        nth = int(place or 0) + 1
        return PrunedBatch(1, str(nth) if nth < self.pages else None)


async def test_of_many_workers_that_look_at_once_one_runs_a_due_task(yard: Yard) -> None:
    steps = Steps()
    told = await asyncio.gather(*(yard.maintainer(task(steps), worker=f"w{n}").look() for n in range(4)))
    assert steps.places == [None]
    assert sorted(one.outcome for look in told for one in look if one.outcome != "busy") == ["done"]
    assert await yard.maintainer(task(steps)).look() == []


async def test_times_that_were_missed_are_not_made_up_for(yard: Yard) -> None:
    steps = Steps()
    await yard.maintainer(task(steps)).look()
    await yard.world.sql(DUE)
    for _ in range(3):
        await yard.maintainer(task(steps)).look()
    assert len(steps.places) == 2


async def test_a_run_whose_worker_was_killed_goes_on_at_its_place_when_the_lease_is_over(yard: Yard) -> None:
    async def killed(place: str | None) -> PrunedBatch:
        if place == "2":
            raise asyncio.CancelledError
        return await steps(place)

    steps = Steps(pages=4)
    [look] = await asyncio.gather(yard.maintainer(task(killed)).look(), return_exceptions=True)
    assert isinstance(look, asyncio.CancelledError)
    assert await yard.maintainer(task(steps)).look() == []
    await yard.world.sql(EXPIRE)
    [told] = await yard.maintainer(task(steps)).look()
    assert (told.outcome, told.removed) == ("done", 2)
    assert steps.places == [None, "1", "2", "3"]


async def test_who_comes_back_late_writes_nothing_and_stops(yard: Yard) -> None:
    steps = Steps()

    async def slow(place: str | None) -> PrunedBatch:
        await yard.world.sql(EXPIRE)
        await yard.maintainer(task(steps)).look()
        return await Steps(pages=9)(place)

    [told] = await yard.maintainer(task(slow), worker="late").look()
    assert told.outcome == "lost"
    assert await yard.world.sql(RUN) == [("done", 1, False)]


async def test_a_run_that_takes_long_is_cut_and_gone_on_with_at_the_next_look(yard: Yard) -> None:
    steps = Steps(pages=3)
    outcomes = [(await yard.maintainer(task(steps), longest_s=0.0).look())[0].outcome for _ in range(3)]
    assert outcomes == ["cut", "cut", "done"]
    assert steps.places == [None, "1", "2"]


async def test_a_task_that_fails_is_told_by_kind_tried_again_later_and_keeps_no_other_from_running(yard: Yard) -> None:
    async def fails(place: str | None) -> PrunedBatch:
        raise ValueError(f"what stood there {place}")

    steps = Steps()
    failed, done = await yard.maintainer(task(fails, "broken"), task(steps)).look()
    assert (failed.outcome, failed.why, done.outcome) == ("failed", "ValueError", "done")
    assert await yard.maintainer(task(fails, "broken")).look() == []
    await yard.world.sql(DUE)
    assert [one.outcome for one in await yard.maintainer(task(fails, "broken")).look()] == ["failed"]


async def test_a_run_that_went_past_a_failure_is_told_as_failed_and_gone_on_with_as_if_it_had_not(yard: Yard) -> None:
    async def fails_first(place: str | None) -> PrunedBatch:
        page = await steps(place)
        return page if place else replace(page, failed="ValueError")

    steps = Steps(pages=2)
    looks = [await yard.maintainer(task(fails_first), longest_s=0.0).look() for _ in range(3)]
    assert [[(one.outcome, one.why) for one in look] for look in looks] == [
        [("failed", "ValueError")],
        [("done", None)],
        [],
    ]


async def test_by_hand_a_task_runs_to_its_end_whether_it_is_time_or_not_unless_somebody_runs_it(yard: Yard) -> None:
    steps = Steps(pages=3)
    one = task(steps)
    for _ in range(2):
        told = await yard.maintainer(one, longest_s=0.0).work(one, by_hand=True)
        assert (told.outcome, told.removed) == ("done", 3)
    assert await Schedule(yard.world.database).take("tidy", lease=HOUR, worker="other", by_hand=True)
    assert (await yard.maintainer(one).work(one, by_hand=True)).outcome == "busy"


async def test_a_task_that_is_off_never_runs(yard: Yard) -> None:
    steps = Steps()
    one = task(steps, off="nobody asked")
    assert await yard.maintainer(one).look() == []
    assert (await yard.maintainer(one).work(one, by_hand=True)).outcome == "off"
    assert steps.places == []


async def test_the_loop_looks_again_after_an_accident(yard: Yard) -> None:
    steps = Steps()
    maintainer = yard.maintainer(task(steps), every_s=0.01)
    await yard.world.sql("alter table public.afterturn_maintenance rename to lost")
    with capture_logs() as said:
        running = asyncio.create_task(maintainer.run())
        await until(lambda: len(said) > 0, "a look has failed")
    await yard.world.sql("alter table public.lost rename to afterturn_maintenance")
    await asyncio.wait_for(steps.begun.wait(), PATIENCE_S)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert {one["event"] for one in said} == {"maintenance_schedule_unreadable"}
