"""Long work takes all it can get while nobody waits, and rests between its steps while others call."""

import asyncio
import contextvars

import pytest

from store import throttle
from store.database import Database
from store.throttle import LONGEST_REST_S, REST, Throttle


class Work:
    """Runs steps of one work, and keeps how many ran at once at most, and how long each rest was."""

    def __init__(self, database: Database) -> None:
        self.throttle, self.database = Throttle(database), database
        self.outside = contextvars.copy_context()
        self.running = self.most = 0
        self.rests = list[float]()

    async def rest(self, seconds: float) -> None:
        self.rests.append(seconds)

    async def run(self, seconds: float = 0.02, *, others: bool = False) -> None:
        async with self.throttle.step():
            self.running += 1
            self.most = max(self.most, self.running)
            await self.database.fetch("select 1")
            if others:
                await asyncio.create_task(self.database.fetch("select 1"), context=self.outside)
            await asyncio.sleep(seconds)
            self.running -= 1


@pytest.fixture
def work(database: Database, monkeypatch: pytest.MonkeyPatch) -> Work:
    """A work whose rests take no time."""
    made = Work(database)
    monkeypatch.setattr(throttle, "sleep", made.rest)
    return made


async def test_alone_steps_run_side_by_side_and_without_rests(work: Work) -> None:
    await asyncio.gather(*(work.run() for _ in range(3)))
    assert (work.most, work.rests, work.throttle.is_shared) == (3, [], False)


async def test_while_others_call_steps_run_one_at_a_time_and_rest(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "LINGER_S", 60.0)
    await work.run(others=True)
    await asyncio.gather(*(work.run() for _ in range(3)))
    assert (work.most, work.throttle.is_shared) == (1, True)
    assert len(work.rests) == 4
    assert all(REST * 0.02 <= one <= LONGEST_REST_S for one in work.rests)


async def test_a_moment_after_the_last_call_of_others_there_is_no_rest(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle, "LINGER_S", 0.0)
    await work.run(others=True)
    assert not work.throttle.is_shared
    await work.run()
    assert work.rests == []


async def test_a_step_that_fails_lets_the_next_one_go_on(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "LINGER_S", 60.0)
    await work.run(others=True)
    with pytest.raises(ZeroDivisionError):
        async with work.throttle.step():
            raise ZeroDivisionError
    await work.run()
    assert work.running == 0
