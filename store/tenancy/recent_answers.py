"""A cache of the database's answers for a few seconds."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Answer = TypeVar("Answer")


class RecentAnswers(Generic[Key, Answer]):
    """Caches what a look-up answered: the newest `most` answers, each valid for `believed_s` seconds.

    Concurrent calls for one key share one look-up. A key in use is refreshed in the second half of that time, in the
    background: a steady stream of calls never waits. Misses (None) are cached apart and evict no answer. `clock` counts
    seconds. An instance belongs to one event loop.
    """

    def __init__(
        self,
        look_up: Callable[[Key], Awaitable[Answer | None]],
        believed_s: float,
        most: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look_up, self._believed_s, self._most, self._clock = look_up, believed_s, most, clock
        # All are cached for the same time, so the first is the oldest.
        self._found: dict[Key, tuple[float, Answer]] = {}
        self._missed: dict[Key, float] = {}
        self._running: dict[Key, asyncio.Task[Answer | None]] = {}

    async def get(self, key: Key) -> Answer | None:
        """Return the answer for a key; raises what the look-up raises. A cancelled call does not cancel the look-up."""
        now = self._clock()
        if found := self._found.get(key):
            until, answer = found
            if until - now < self._believed_s / 2:
                self._begin(key)
            if until > now:
                return answer
        elif self._missed.get(key, now) > now:
            return None
        return await asyncio.shield(self._begin(key))

    def clear(self) -> None:
        """Drop every answer, and those of look-ups that are under way."""
        self._found.clear()
        self._running.clear()

    def _begin(self, key: Key) -> "asyncio.Task[Answer | None]":
        """Return the running look-up of a key, or start one."""
        if (running := self._running.get(key)) is None:
            running = self._running[key] = asyncio.create_task(self._run(key), name="look up")
            running.add_done_callback(_take_error)
        return running

    async def _run(self, key: Key) -> Answer | None:
        mine = asyncio.current_task()
        try:
            answer = await self._look_up(key)
            # After `clear`, an older look-up may have read stale data.
            if self._running.get(key) is mine:
                self._keep(key, answer)
        finally:
            if self._running.get(key) is mine:
                del self._running[key]
        return answer

    def _keep(self, key: Key, answer: Answer | None) -> None:
        self._found.pop(key, None)
        self._missed.pop(key, None)
        until = self._clock() + self._believed_s
        if answer is None:
            _make_room(self._missed, self._most)
            self._missed[key] = until
        else:
            _make_room(self._found, self._most)
            self._found[key] = until, answer


def _make_room(kept: dict[Key, Answer], most: int) -> None:
    if len(kept) >= most:
        del kept[next(iter(kept))]


def _take_error(task: "asyncio.Task[Answer]") -> None:
    """Retrieve the error of a look-up that no call awaits: the loop does not report it, and the next call retries."""
    if not task.cancelled():
        task.exception()
