"""One reading of the figures feeds all who watch; those of an hour are kept; at its end the feed lets everyone go."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from afterturn_client.contract.figures import FigureReport, FigureSample

from producers.errors import Unavailable
from producers.service import figures
from producers.service.figures import FigureFeed
from tests.patience import until

BEGIN = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


class Readings:
    """Figures of one moment after the other; counts how often they were read."""

    def __init__(self, every: timedelta = timedelta(seconds=5)) -> None:
        self.read = 0
        self.fails = False
        self._every = every

    async def __call__(self) -> FigureReport:
        self.read += 1
        if self.fails:
            raise OSError
        sample = FigureSample(
            at=BEGIN + self.read * self._every,
            undone={"extraction": self.read},
            failed={},
            oldest_s={},
            turns_per_s=None,
            recalls_per_s=None,
            recall_p50_ms=None,
            recall_p95_ms=None,
            done_per_s={},
            age_p95_s={},
        )
        return FigureReport(samples=(sample,), rows={}, workers=(), status="ready", failing={}, reasons=(), alerts=())


async def test_one_reading_is_told_to_all_who_wait() -> None:
    readings = Readings()
    feed = FigureFeed(readings)
    await feed.read_now()
    newest = (await feed.report()).samples[-1].at
    waiting = [asyncio.create_task(feed.wait_after(newest, 60)) for _ in range(10)]
    await asyncio.sleep(0)
    await feed.read_now()
    told = await asyncio.gather(*waiting)
    assert readings.read == 2
    assert [[one.undone for one in report.samples] for report in told if report] == [[{"extraction": 2}]] * 10


async def test_samples_of_an_hour_are_kept_one_in_fifteen_seconds_and_the_newest() -> None:
    readings = Readings()
    feed = FigureFeed(readings)
    for _ in range(1000):
        await feed.read_now()
    kept = [one.at for one in (await feed.report()).samples]
    assert kept[-1] == BEGIN + timedelta(seconds=5000)
    assert kept[0] >= kept[-1] - timedelta(hours=1)
    assert 240 <= len(kept) <= 243
    steps = {later - earlier for earlier, later in pairwise(kept[:-1])}
    assert steps == {timedelta(seconds=15)}


async def test_figures_that_cannot_be_read_leave_those_before() -> None:
    readings = Readings()
    feed = FigureFeed(readings)
    readings.fails = True
    await feed.read_now()
    assert await feed.wait_after(None, 0) is None
    readings.fails = False
    await feed.read_now()
    readings.fails = True
    await feed.read_now()
    assert [one.undone for one in (await feed.report()).samples] == [{"extraction": 2}]


async def test_before_the_first_reading_there_is_nothing_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "FIRST_S", 0.0)
    with pytest.raises(Unavailable):
        await FigureFeed(Readings()).report()


async def test_it_reads_until_it_is_told_to_end_and_then_lets_everyone_go() -> None:
    readings, ending = Readings(), asyncio.Event()
    feed = FigureFeed(readings)
    running = asyncio.create_task(feed.run(ending))
    await until(lambda: readings.read == 1, "it has read")
    newest = (await feed.report()).samples[-1].at
    waiting = asyncio.create_task(feed.wait_after(newest, 600))
    await asyncio.sleep(0)
    ending.set()
    await running
    assert await waiting is None
    assert feed.is_closed


async def test_it_reads_at_once_for_who_comes_while_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "WATCHED_S", 0.01)
    monkeypatch.setattr(figures, "QUIET_S", 3600.0)
    readings, ending = Readings(), asyncio.Event()
    feed = FigureFeed(readings)
    running = asyncio.create_task(feed.run(ending))
    await until(lambda: readings.read == 1, "it has read")
    with feed.watched():
        await until(lambda: readings.read > 3, "it reads more often")
    ending.set()
    await running
