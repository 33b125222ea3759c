"""A call's processor time is that of its own steps and threads, and no other call's."""

import asyncio
import gc
import time
import weakref

import pytest

from store.cpu_meter import CURRENT, CpuMeter
from store.off_loop import LONG_CHARACTERS, Steps, run_off_loop, run_steps_off_loop

SOME_S = 0.05


def burn(seconds: float = SOME_S) -> str:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
    return "done"


async def measured(work: object) -> tuple[object, float]:
    meter = CpuMeter()
    CURRENT.set(meter)
    return await meter.watch(work), meter.used_s  # type: ignore[arg-type]  # any awaitable


async def test_steps_on_the_loop_and_work_in_threads_count_and_waiting_does_not() -> None:
    def steps() -> Steps[str]:
        burn()
        yield
        return "done"

    async def work() -> list[str]:
        burn()
        await asyncio.sleep(2 * SOME_S)
        return [await run_off_loop(LONG_CHARACTERS, burn), await run_steps_off_loop(LONG_CHARACTERS, steps())]

    result, used_s = await measured(work())
    assert result == ["done", "done"]
    assert 3 * SOME_S <= used_s < 4 * SOME_S


async def test_another_call_that_works_meanwhile_is_not_measured() -> None:
    async def waits() -> None:
        for _ in range(5):
            await asyncio.sleep(0.01)

    async def works() -> None:
        for _ in range(5):
            burn(SOME_S / 5)
            await asyncio.sleep(0.001)

    both = [asyncio.create_task(measured(work)) for work in (waits(), works())]
    (_, little), (_, much) = await asyncio.gather(*both)
    assert little < SOME_S / 2
    assert much >= SOME_S


async def test_errors_and_cancellations_pass() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise LookupError

    ended: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            ended.append("cleaned")

    with pytest.raises(LookupError):
        await measured(fails())
    task = asyncio.create_task(measured(waits()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["cleaned"]


async def test_a_call_that_timed_out_leaves_no_reference_cycle() -> None:
    class Body:
        pass

    async def waits(body: Body) -> None:
        async with asyncio.timeout(0.001):
            await asyncio.sleep(60)
        raise AssertionError(body)

    async def call() -> weakref.ref[Body]:
        body = Body()
        try:
            await CpuMeter().watch(waits(body))
        except TimeoutError:
            return weakref.ref(body)
        raise AssertionError

    gc.disable()
    try:
        body = await call()
        await asyncio.sleep(0)  # the loop still holds the error that it threw
        assert body() is None
    finally:
        gc.enable()
