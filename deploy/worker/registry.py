"""Registers a worker process with heartbeats, and drains it on an operator's request."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from importlib.metadata import version
from typing import Any

import dramatiq
import structlog
from dramatiq.asyncio import EventLoopThread

from store.database_outage import may_pass
from store.ledger.workers import BEAT_S, WorkerRegistry

#: Patience with the database for one word, in seconds: a process that is to end does not wait for it.
PATIENCE_S = 2.0
#: How long work in flight may take to end in a process that drains, in seconds.
DRAIN_S = 300.0

log = structlog.get_logger("afterturn.worker")


class Registration:
    """One process's entry, kept fresh on its event loop; a database that is away costs nothing but that.

    `wanted` is how an operator wants the process to stand, `state` what the process says of itself.
    """

    def __init__(self, registry: WorkerRegistry, worker: str, stages: Sequence[str]) -> None:
        self.wanted = "working"
        self.state: str | None = None
        self._registry = registry
        self._worker = worker
        self._stages = stages
        self._known = False
        self._beating: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to say that the process is there; call it on the loop."""
        self._beating = asyncio.create_task(self._run(), name="worker registry")

    async def end(self) -> None:
        """Take the entry away."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait([self._beating])
        await self._log_failure_of(self._registry.end(self._worker))

    async def _run(self) -> None:
        while True:
            await self._log_failure_of(self._send_heartbeat())
            await asyncio.sleep(BEAT_S)

    async def _send_heartbeat(self) -> None:
        if not self._known:
            await self._registry.begin(self._worker, version("afterturn"), self._stages)
            self._known = True
        self.wanted = await self._registry.beat(self._worker, self.state)

    async def _log_failure_of(self, word: Coroutine[Any, Any, None]) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await word
        except Exception as error:  # noqa: BLE001 - the next word comes; what is no outage is told
            if not may_pass(error):
                log.warning("worker_registry_failed", error=type(error).__name__)


def wait_for_end(
    loop: EventLoopThread,
    entry: Registration,
    workers: Sequence[dramatiq.Worker],
    drain: Callable[[float], Coroutine[Any, Any, None]],
    ending: threading.Event,
) -> None:
    """Return when the process is to end; drain once where an operator says so.

    A drained process claims nothing and stays, so that its supervisor does not start it again.
    """
    while not ending.wait(BEAT_S):
        if entry.wanted == "draining" and entry.state is None:
            for one in workers:
                one.pause()
            log.info("draining")
            loop.run_coroutine(drain(DRAIN_S))
            entry.state = "drained"
            log.info("drained")
