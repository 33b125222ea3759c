"""Measures the processor time of a call: of its own task on the event loop, and of its work in threads (`off_loop`).

Processor time, unlike a call's duration, does not grow where other calls keep the machine busy. Tasks that a call
starts, the model's threads and the database are not in it.
"""

import time
from collections.abc import Awaitable, Callable, Generator
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

R = TypeVar("R")

#: The meter of the current call, if it has one.
CURRENT: ContextVar["CpuMeter | None"] = ContextVar("cpu_meter", default=None)


class CpuMeter:
    """The processor time of one call so far, in seconds."""

    __slots__ = ("used_s",)

    def __init__(self) -> None:
        self.used_s = 0.0

    def run(self, work: Callable[[], R]) -> R:
        """Return the result of work in the thread of the caller, which is measured."""
        begun = time.thread_time()
        try:
            return work()
        finally:
            self.used_s += time.thread_time() - begun

    def watch(self, work: Awaitable[R]) -> Awaitable[R]:
        """Return an awaitable of the work's result; each step of it on the event loop is measured."""
        return _Watched(self, work)


class _Watched(Generic[R]):
    """An awaitable whose steps are measured."""

    def __init__(self, meter: CpuMeter, work: Awaitable[R]) -> None:
        self._meter, self._work = meter, work

    def __await__(self) -> Generator[Any, Any, R]:
        steps = self._work.__await__()
        raised: BaseException | None = None
        while True:
            begun = time.thread_time()
            try:
                waits_for = steps.send(None) if raised is None else steps.throw(raised)
            except StopIteration as end:
                result: R = end.value
                return result
            finally:
                self._meter.used_s += time.thread_time() - begun
                raised = None  # its traceback refers to this frame: a cycle would keep the call's request
            try:
                yield waits_for
            except BaseException as error:  # noqa: BLE001 - a cancellation, too, is the work's
                raised = error


def measure_in_thread(work: Callable[[], R]) -> Callable[[], R]:
    """Return the work so that a thread that runs it measures it for the current call."""
    meter = CURRENT.get()
    return work if meter is None else lambda: meter.run(work)
