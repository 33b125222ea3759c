"""Coalesces concurrent calls into one round trip and one commit."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from store.database_outage import may_pass

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


@dataclass(slots=True, weakref_slot=True)
class Coalescer(Generic[Asked, Answer]):
    """A queue of calls that runs up to `lanes` batches at a time; calls that come meanwhile share the next batch.

    `answer` takes a batch of total weight `most`, in order, and returns as many answers; a heavier call goes alone. A
    batch that fails is tried again call by call, so that one bad call fails alone, unless the database is out of reach
    or a lock timed out. With `eager` a call that finds a free lane runs at once, without the other calls of the same
    iteration of the loop. Belongs to one event loop.
    """

    answer: Callable[[Sequence[Asked]], Awaitable[Sequence[Answer]]]
    most: int = 64
    lanes: int = 1
    weigh: Callable[[Asked], int] = lambda _asked: 1
    eager: bool = False
    _waiting: deque[tuple[Asked, "asyncio.Future[Answer]"]] = field(default_factory=deque)
    _busy: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def ask(self, asked: Asked) -> Answer:
        """Return the call's answer, or raise what `answer` raised. A call cancelled while it waits is never made."""
        if self.eager and self._busy < self.lanes and not self._waiting:
            return await self._at_once(asked)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, future))
        self._begin()
        return await future

    async def _at_once(self, asked: Asked) -> Answer:
        self._busy += 1
        try:
            [answer] = await self.answer([asked])
        finally:
            self._busy -= 1
            self._begin()
        return answer

    def _begin(self) -> None:
        if self._waiting and self._busy < self.lanes:
            self._busy += 1
            task = asyncio.create_task(self._run(), name="together")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._answer(self._taken())
        finally:
            # No await after the last check of the queue: a call that arrived in between would wait for ever.
            self._busy -= 1

    def _taken(self) -> list[tuple[Asked, "asyncio.Future[Answer]"]]:
        """Take the first waiting call, and those after it until the batch weighs `most`."""
        taken = [self._waiting.popleft()]
        weight = self.weigh(taken[0][0])
        while self._waiting and (weight := weight + self.weigh(self._waiting[0][0])) <= self.most:
            taken.append(self._waiting.popleft())
        return taken

    async def _answer(self, waiting: Sequence[tuple[Asked, "asyncio.Future[Answer]"]]) -> None:
        some = [(asked, future) for asked, future in waiting if not future.done()]
        if not some:
            return
        try:
            answers = await self.answer([asked for asked, _ in some])
        except Exception as error:  # noqa: BLE001 - each caller of the batch gets the error
            await self._failed(some, error)
            return
        for (_, future), answer in zip(some, answers, strict=True):
            if not future.done():
                future.set_result(answer)

    async def _failed(self, some: Sequence[tuple[Asked, "asyncio.Future[Answer]"]], error: Exception) -> None:
        if len(some) > 1 and not may_pass(error):
            for one in some:
                await self._answer([one])
            return
        for _, future in some:
            if not future.done():
                future.set_exception(error)
