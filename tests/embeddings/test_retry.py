"""An operation is made again after errors that may pass: how often, how soon, and until when."""

from dataclasses import dataclass, field

import pytest

from embeddings.retry import AT_ONCE, Backoff, Retry, wait_evenly


@dataclass
class Time:
    """A clock that moves only by waiting."""

    now: float = 100.0
    waits: list[float] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.sleep_blocking(seconds)

    def sleep_blocking(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


class BusyError(Exception):
    """What may pass; `after_s` seconds at the earliest."""

    def __init__(self, after_s: float = 0.0) -> None:
        super().__init__("busy")
        self.after_s = after_s


@dataclass
class Operation:
    """Raises these errors, one a call, and then returns how often it was called."""

    errors: list[Exception]
    calls: int = 0

    async def __call__(self) -> int:
        return self.make()

    def make(self) -> int:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return self.calls


def again(error: Exception) -> float | None:
    return error.after_s if isinstance(error, BusyError) else None


def growing() -> Backoff:
    return Backoff(1.0, factor=2.0, longest_s=4.0, chance=lambda: 0.5)


@pytest.fixture
def time() -> Time:
    return Time()


async def test_waits_grow_to_the_longest_until_the_operation_goes_well(time: Time) -> None:
    operation = Operation([BusyError() for _ in range(4)])
    assert await Retry(growing(), sleep=time.sleep, clock=time.clock).call(operation, again) == 5
    assert time.waits == [1.0, 2.0, 4.0, 4.0]


async def test_an_error_that_asks_for_longer_is_obeyed(time: Time) -> None:
    operation = Operation([BusyError(0.5), BusyError(30.0)])
    assert await Retry(growing(), sleep=time.sleep, clock=time.clock).call(operation, again) == 3
    assert time.waits == [1.0, 30.0]


async def test_the_last_attempt_raises_its_error(time: Time) -> None:
    operation = Operation([BusyError() for _ in range(9)])
    with pytest.raises(BusyError):
        await Retry(growing(), attempts=3, sleep=time.sleep, clock=time.clock).call(operation, again)
    assert operation.calls == 3
    assert time.waits == [1.0, 2.0]


async def test_another_error_is_raised_at_once(time: Time) -> None:
    operation = Operation([ValueError("wrong")])
    with pytest.raises(ValueError, match="wrong"):
        await Retry(growing(), sleep=time.sleep, clock=time.clock).call(operation, again)
    assert (operation.calls, time.waits) == (1, [])


async def test_no_wait_reaches_the_deadline(time: Time) -> None:
    operation = Operation([BusyError() for _ in range(9)])
    with pytest.raises(BusyError):
        await Retry(growing(), sleep=time.sleep, clock=time.clock).call(operation, again, deadline=104.0)
    assert time.waits == [1.0, 2.0]


async def test_without_a_wait_nothing_sleeps(time: Time) -> None:
    operation = Operation([BusyError() for _ in range(3)])
    assert await Retry(AT_ONCE, attempts=4, sleep=time.sleep).call(operation, again) == 4
    assert time.waits == []


def test_a_blocking_operation_follows_the_same_rules(time: Time) -> None:
    operation = Operation([BusyError(), BusyError(3.0), BusyError()])
    policy = Retry(growing(), clock=time.clock)
    with pytest.raises(BusyError):
        policy.call_blocking(operation.make, again, deadline=106.0, sleep=time.sleep_blocking)
    assert time.waits == [1.0, 3.0]


def test_waits_are_spread_from_half_to_one_and_a_half_times_each() -> None:
    assert Backoff(1.0, factor=2.0, chance=lambda: 0.0).seconds(3) == 2.0
    assert Backoff(1.0, factor=2.0, chance=lambda: 1.0).seconds(3) == 6.0
    spread = {wait_evenly(1.0).seconds(attempt) for attempt in range(1, 50)}
    assert len(spread) > 40
    assert all(0.5 <= wait <= 1.5 for wait in spread)
