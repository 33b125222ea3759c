"""What was looked up is believed for a moment, and looked up once for all who ask."""

import asyncio
from collections.abc import Callable

import pytest

from store.tenancy.recent_answers import RecentAnswers
from tests.patience import PATIENCE_S


class Source:
    """Answers when it is let, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.knows: dict[str, str] = {}
        self.open = asyncio.Event()
        self.open.set()
        self.fails = False

    async def look_up(self, key: str) -> str | None:
        self.asked.append(key)
        answer = self.knows.get(key)
        await self.open.wait()
        if self.fails:
            raise OSError("away")
        return answer


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def source() -> Source:
    return Source()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def answers(source: Source, clock: Clock) -> RecentAnswers[str, str]:
    return RecentAnswers(source.look_up, 2.0, 3, clock)


async def settle(until: Callable[[], bool]) -> None:
    for _ in range(1000):
        if until():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not come to that")


async def test_who_asks_at_the_same_time_shares_one_look_up(source: Source, answers: RecentAnswers[str, str]) -> None:
    source.knows["a"] = "A"
    assert await asyncio.gather(*(answers.get("a") for _ in range(16))) == ["A"] * 16
    assert await answers.get("a") == "A"
    assert source.asked == ["a"]


async def test_a_key_in_use_is_looked_up_again_before_its_time_is_over_and_nobody_waits(
    source: Source, answers: RecentAnswers[str, str], clock: Clock
) -> None:
    source.knows["a"] = "A"
    await answers.get("a")
    clock.now += 0.9
    assert (await answers.get("a"), source.asked) == ("A", ["a"])
    source.knows["a"] = "B"
    source.open.clear()
    clock.now += 0.2
    async with asyncio.timeout(PATIENCE_S):
        assert [await answers.get("a") for _ in range(3)] == ["A"] * 3
    await settle(lambda: len(source.asked) > 1)
    source.open.set()
    await settle(lambda: not answers._running)
    assert (await answers.get("a"), source.asked) == ("B", ["a", "a"])


async def test_an_answer_holds_no_longer_than_its_time(
    source: Source, answers: RecentAnswers[str, str], clock: Clock
) -> None:
    source.knows["a"] = "A"
    assert (await answers.get("a"), await answers.get("b")) == ("A", None)
    del source.knows["a"]
    source.knows["b"] = "B"
    assert await answers.get("b") is None
    clock.now += 2.1
    assert (await answers.get("a"), await answers.get("b")) == (None, "B")


async def test_an_error_is_raised_to_all_who_wait_and_the_next_call_asks_again(
    source: Source, answers: RecentAnswers[str, str], clock: Clock
) -> None:
    source.knows["a"] = "A"
    source.fails = True
    raised = await asyncio.gather(*(answers.get("a") for _ in range(3)), return_exceptions=True)
    assert [type(one) for one in raised] == [OSError] * 3
    source.fails = False
    assert await answers.get("a") == "A"
    source.fails = True
    clock.now += 1.5
    assert await answers.get("a") == "A"
    await settle(lambda: len(source.asked) == 3 and not answers._running)
    assert await answers.get("a") == "A"


async def test_who_is_cancelled_leaves_the_look_up_to_the_others(
    source: Source, answers: RecentAnswers[str, str]
) -> None:
    source.knows["a"] = "A"
    source.open.clear()
    first, second = (asyncio.create_task(answers.get("a")) for _ in range(2))
    await settle(lambda: bool(source.asked))
    first.cancel()
    await asyncio.sleep(0)
    source.open.set()
    assert await second == "A"
    assert source.asked == ["a"]


async def test_what_was_read_before_all_was_forgotten_is_not_kept(
    source: Source, answers: RecentAnswers[str, str]
) -> None:
    source.knows["a"] = "A"
    source.open.clear()
    early = asyncio.create_task(answers.get("a"))
    await settle(lambda: bool(source.asked))
    del source.knows["a"]
    answers.clear()
    late = asyncio.create_task(answers.get("a"))
    await settle(lambda: len(source.asked) == 2)
    source.open.set()
    assert (await early, await late) == ("A", None)
    assert await answers.get("a") is None


async def test_unknown_keys_push_out_no_known_one_and_the_oldest_goes_first(
    source: Source, answers: RecentAnswers[str, str]
) -> None:
    source.knows |= {str(n): "known" for n in range(4)}
    await answers.get("0")
    for n in range(20):
        await answers.get(f"unknown {n}")
    asked = len(source.asked)
    await answers.get("0")
    assert len(source.asked) == asked
    for n in range(1, 4):
        await answers.get(str(n))
    await answers.get("0")
    assert source.asked[-1] == "0"
