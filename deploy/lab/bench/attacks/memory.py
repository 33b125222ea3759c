"""Watches the memory growth of a stack's processes during an attack, and which of them ended."""

import asyncio
from types import TracebackType
from typing import Self

import psutil

from deploy.local.stack import Stack, StackNotRunning, find_stack

SAMPLE_INTERVAL_S = 0.1
MIB = 1024 * 1024
#: Prefixes of the watched processes; PostgreSQL's share most of their memory, so a sum would be meaningless.
WATCHED = ("api", "worker")


class MemoryWatch:
    """Samples the resident memory of the API and the workers while its block runs."""

    def __init__(self, stack: Stack) -> None:
        self._data = stack.api_key_file.parent
        self._first: dict[int, float] = {}
        self._peak: dict[int, float] = {}
        self._names: dict[int, str] = {}
        self._watching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._look()
        self._first = dict(self._peak)
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        self._look()

    def growth_mib(self) -> dict[str, float]:
        """Return the largest growth of each watched process since the beginning, in MiB."""
        return {name: round(self._peak[pid] - self._first.get(pid, 0.0)) for pid, name in self._names.items()}

    def restarts(self) -> list[str]:
        """Return the names of processes that have ended since the beginning."""
        return [self._names[pid] for pid in self._first if not psutil.pid_exists(pid)]

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_INTERVAL_S)
            self._look()

    def _look(self) -> None:
        try:
            processes = find_stack(self._data).processes
        except StackNotRunning:  # stack.json is just being replaced
            return
        for one in processes:
            if one.name.startswith(WATCHED):
                try:
                    size = psutil.Process(one.pid).memory_info().rss / MIB
                except psutil.Error:
                    continue
                self._names[one.pid] = one.name
                self._peak[one.pid] = max(size, self._peak.get(one.pid, 0.0))
