"""Places: as many as there are for one tenant, one beyond them for a tenant that has none, and none for ever."""

import asyncio
from uuid import UUID

import pytest

from tests.patience import until
from workers.places import Places

ANN, BEN, CAY = UUID(int=1), UUID(int=2), UUID(int=3)


class Work:
    """Pieces of work: each holds its place until it is told to end."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.begun = list[UUID]()
        self.running = list[UUID]()
        self.may_end = asyncio.Event()

    def start(self, tenant: UUID) -> "asyncio.Task[None]":
        return asyncio.create_task(self._run(tenant))

    async def _run(self, tenant: UUID) -> None:
        async with self.places.hold(tenant):
            self.begun.append(tenant)
            self.running.append(tenant)
            await self.may_end.wait()
            self.running.remove(tenant)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.places.PATIENCE_S", 0.01)


async def test_one_tenant_has_the_places_that_there_are_and_no_more() -> None:
    work = Work(Places(2))
    tasks = [work.start(ANN) for _ in range(5)]
    await until(lambda: len(work.running) == 2, "both places are held")
    await asyncio.sleep(0.1)
    assert work.running == [ANN, ANN]
    work.may_end.set()
    await asyncio.gather(*tasks)
    assert len(work.begun) == 5


async def test_a_tenant_without_a_place_gets_one_beyond_them_up_to_twice_as_many() -> None:
    work = Work(Places(1))
    tasks = [work.start(ANN), work.start(ANN)]
    await until(lambda: work.running == [ANN], "the place is held")
    tasks += [work.start(BEN), work.start(BEN), work.start(CAY)]
    await until(lambda: work.running == [ANN, BEN], "the other has a place beyond it")
    await asyncio.sleep(0.1)
    assert work.running == [ANN, BEN]
    work.may_end.set()
    await asyncio.gather(*tasks)


async def test_a_free_place_is_given_to_the_tenant_with_the_fewest() -> None:
    work = Work(Places(2))
    tasks = [work.start(ANN) for _ in range(4)]
    await until(lambda: len(work.running) == 2, "both places are held")
    tasks.append(work.start(BEN))
    work.may_end.set()
    await asyncio.gather(*tasks)
    assert work.begun[2] == BEN


async def test_who_is_cancelled_while_waiting_or_working_keeps_no_place() -> None:
    work = Work(Places(1))
    tasks = [work.start(ANN) for _ in range(3)]
    await until(lambda: work.running == [ANN], "the place is held")
    for task in tasks[:2]:
        task.cancel()
    await until(lambda: len(work.begun) == 2, "the third has the place")
    work.may_end.set()
    await tasks[2]
    assert not work.places._waiting
    assert not work.places._held
