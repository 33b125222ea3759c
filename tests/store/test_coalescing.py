"""Calls made at the same time are made as one, and the fault of one is no fault of the others."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from store.coalescing import Coalescer
from tests.patience import PATIENCE_S


@dataclass
class Doubling:
    """Doubles numbers; cannot double 13, and nothing while `away`."""

    away: bool = False
    batches: list[list[int]] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, numbers: Sequence[int]) -> list[int]:
        self.batches.append(list(numbers))
        self.begun.set()
        await asyncio.sleep(0.001)
        if self.away:
            raise ConnectionRefusedError
        if 13 in numbers:
            raise ValueError("13")
        return [2 * number for number in numbers]


async def test_what_is_asked_at_the_same_time_is_answered_at_once_and_each_gets_its_own() -> None:
    doubling = Doubling()
    together = Coalescer(doubling)
    assert await asyncio.gather(*(together.ask(number) for number in range(5))) == [0, 2, 4, 6, 8]
    assert doubling.batches == [[0, 1, 2, 3, 4]]


async def test_what_is_asked_while_an_answer_is_under_way_shares_the_next_one_up_to_the_most() -> None:
    doubling = Doubling()
    together = Coalescer(doubling, most=2)
    first = asyncio.create_task(together.ask(1))
    await doubling.begun.wait()
    assert await asyncio.gather(first, *(together.ask(number) for number in (2, 3, 4))) == [2, 4, 6, 8]
    assert doubling.batches == [[1], [2, 3], [4]]


async def test_who_asks_again_the_moment_it_is_answered_is_answered_again() -> None:
    together = Coalescer(Doubling())
    async with asyncio.timeout(PATIENCE_S):
        assert [await together.ask(number) for number in range(3)] == [0, 2, 4]


async def test_one_that_cannot_be_answered_spoils_it_for_no_other() -> None:
    together = Coalescer(Doubling())
    answers = await asyncio.gather(*(together.ask(number) for number in (1, 13, 2)), return_exceptions=True)
    assert (answers[0], answers[2]) == (2, 4)
    assert isinstance(answers[1], ValueError)


async def test_a_database_out_of_reach_is_asked_once_for_all() -> None:
    doubling = Doubling(away=True)
    together = Coalescer(doubling)
    answers = await asyncio.gather(*(together.ask(number) for number in (1, 2)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [ConnectionRefusedError] * 2
    assert len(doubling.batches) == 1


async def test_who_gave_up_before_it_was_asked_is_not_asked_for() -> None:
    doubling = Doubling()
    together = Coalescer(doubling)
    waiting = [asyncio.create_task(together.ask(number)) for number in (1, 2, 3)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting[1]
    assert [await waiting[0], await waiting[2]] == [2, 6]
    assert doubling.batches == [[1, 3]]


async def test_who_gave_up_before_each_is_asked_alone_is_not_asked_for_again() -> None:
    doubling = Doubling()
    together = Coalescer(doubling)
    waiting = [asyncio.create_task(together.ask(number)) for number in (13, 2, 3)]
    await doubling.begun.wait()
    waiting[1].cancel()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(answer) for answer in answers[:2]] == [ValueError, asyncio.CancelledError]
    assert answers[2] == 6
    assert doubling.batches == [[13, 2, 3], [13], [3]]


async def test_with_two_lanes_two_answers_are_under_way_and_the_third_waits() -> None:
    held = asyncio.Event()
    begun: list[list[int]] = []

    async def answer(numbers: Sequence[int]) -> Sequence[int]:
        begun.append(list(numbers))
        await held.wait()
        return numbers

    together = Coalescer(answer, lanes=2)
    asked = []
    for number in range(5):
        asked.append(asyncio.create_task(together.ask(number)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert begun == [[0], [1]]
    held.set()
    assert await asyncio.gather(*asked) == [0, 1, 2, 3, 4]
    assert begun == [[0], [1], [2, 3, 4]]


async def test_what_is_heavy_goes_alone_and_nothing_overtakes_it() -> None:
    doubling = Doubling()
    together = Coalescer(doubling, most=10, weigh=lambda number: number)
    assert await asyncio.gather(*(together.ask(number) for number in (4, 5, 20, 3, 7, 1))) == [8, 10, 40, 6, 14, 2]
    assert doubling.batches == [[4, 5], [20], [3, 7], [1]]


async def test_who_is_eager_is_answered_alone_and_the_others_share_the_next() -> None:
    doubling = Doubling()
    together = Coalescer(doubling, lanes=2, eager=True)
    assert await asyncio.gather(*(together.ask(number) for number in range(6))) == [0, 2, 4, 6, 8, 10]
    assert doubling.batches == [[0], [1], [2, 3, 4, 5]]


@pytest.mark.parametrize("away", [False, True])
async def test_whoever_waits_for_one_who_was_eager_and_gave_up_or_failed_is_answered(*, away: bool) -> None:
    doubling = Doubling(away=away)
    together = Coalescer(doubling, eager=True)
    eager = asyncio.create_task(together.ask(1))
    await doubling.begun.wait()
    waiting = asyncio.create_task(together.ask(2))
    await asyncio.sleep(0)
    if not away:
        eager.cancel()
    with pytest.raises((asyncio.CancelledError, ConnectionRefusedError)):
        await eager
    doubling.away = False
    async with asyncio.timeout(PATIENCE_S):
        assert await waiting == 4
