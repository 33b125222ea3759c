"""Calls that run at once end together, with their error or with the block that they run beside."""

import asyncio

import pytest

from store.concurrent_calls import gather_or_cancel, run_meanwhile


class Calls:
    """Calls that note how they end."""

    def __init__(self) -> None:
        self.begun, self.ended, self.are_two = list[str](), list[str](), asyncio.Event()

    async def wait(self, name: str) -> str:
        self.begun.append(name)
        if len(self.begun) == 2:
            self.are_two.set()
        try:
            await asyncio.Event().wait()
        finally:
            # An end takes its time: a connection is closed, a transaction undone. The second takes longer.
            for _ in range(10 * (1 + self.begun.index(name))):
                await asyncio.sleep(0)
            self.ended.append(name)
        return name

    async def fail(self, error: Exception) -> str:
        await self.are_two.wait()
        raise error


async def answer(value: str) -> str:
    await asyncio.sleep(0)
    return value


async def test_the_results_come_in_the_order_of_the_calls() -> None:
    assert await gather_or_cancel(answer("first"), answer("second")) == ["first", "second"]
    assert await gather_or_cancel() == []


async def test_the_error_of_one_is_raised_as_it_is_once_the_others_have_ended() -> None:
    calls = Calls()
    with pytest.raises(ConnectionRefusedError):
        await gather_or_cancel(calls.wait("a"), calls.fail(ConnectionRefusedError("away")), calls.wait("b"))
    assert calls.ended == calls.begun == ["a", "b"]


async def test_who_is_cancelled_leaves_none_running() -> None:
    calls = Calls()
    whole = asyncio.create_task(gather_or_cancel(calls.wait("a"), calls.wait("b")))
    await calls.are_two.wait()
    whole.cancel()
    with pytest.raises(asyncio.CancelledError):
        await whole
    assert calls.ended == ["a", "b"]


async def test_what_runs_meanwhile_has_ended_when_its_block_is_left_by_an_error() -> None:
    calls = Calls()

    async def work() -> None:
        await calls.wait("a")

    with pytest.raises(ConnectionRefusedError):
        async with run_meanwhile(work(), "a of the test") as task:
            await asyncio.sleep(0)
            assert (calls.begun, task.get_name()) == (["a"], "a of the test")
            raise ConnectionRefusedError("away")
    assert calls.ended == ["a"]


async def test_an_error_of_what_runs_meanwhile_does_not_end_the_block() -> None:
    async def work() -> None:
        raise ConnectionRefusedError("away")

    async with run_meanwhile(work(), "fails") as task:
        await asyncio.wait([task])
    assert isinstance(task.exception(), ConnectionRefusedError)
