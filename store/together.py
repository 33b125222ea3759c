"""Calls that many make at the same time, made as one: a round trip and a commit for all of them."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from store.outage import is_outage

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


@dataclass(slots=True, weakref_slot=True)
class Together(Generic[Asked, Answer]):
    """Answers at once who asks alone; what is asked while an answer is under way shares the next one.

    `answer` takes up to `most` at a time and gives as many answers, in their order. What fails for all together is
    tried for each alone, unless the database is out of reach: one that cannot be answered spoils it for no other.
    Belongs to one event loop.
    """

    answer: Callable[[Sequence[Asked]], Awaitable[Sequence[Answer]]]
    most: int = 64
    _waiting: deque[tuple[Asked, "asyncio.Future[Answer]"]] = field(default_factory=deque)
    _task: asyncio.Task[None] | None = None

    async def ask(self, asked: Asked) -> Answer:
        """Return the answer, or raise what `answer` raised. Who is cancelled while waiting was not asked for."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="together")
        return await future

    async def _run(self) -> None:
        while self._waiting:
            taken = [self._waiting.popleft() for _ in range(min(self.most, len(self._waiting)))]
            await self._answer([(asked, future) for asked, future in taken if not future.done()])

    async def _answer(self, some: Sequence[tuple[Asked, "asyncio.Future[Answer]"]]) -> None:
        if not some:
            return
        try:
            answers = await self.answer([asked for asked, _ in some])
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to who asked
            await self._failed(some, error)
            return
        for (_, future), answer in zip(some, answers, strict=True):
            if not future.done():
                future.set_result(answer)

    async def _failed(self, some: Sequence[tuple[Asked, "asyncio.Future[Answer]"]], error: Exception) -> None:
        if len(some) > 1 and not is_outage(error):
            for one in some:
                await self._answer([one])
            return
        for _, future in some:
            if not future.done():
                future.set_exception(error)
