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

#: Time-out of one heartbeat, in seconds: a process that stops does not wait longer for the database.
PATIENCE_S = 2.0
#: How long running work may take to finish in a draining process, in seconds.
DRAIN_S = 300.0

log = structlog.get_logger("afterturn.worker")


class Registration:
    """A worker process's row in the list of workers, kept fresh by heartbeats; database outages are tolerated.

    `wanted` is the state an operator asked for, `state` what the process reports. `model` is the name and generation
    of the sentence model that its settings name.
    """

    def __init__(
        self, registry: WorkerRegistry, worker: str, stages: Sequence[str], model: tuple[str, int] | None = None
    ) -> None:
        self.wanted = "working"
        self.state: str | None = None
        self._registry = registry
        self._worker = worker
        self._stages = stages
        self._model = model
        self._known = False
        self._beating: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the heartbeats; call this on the event loop."""
        self._beating = asyncio.create_task(self._run(), name="worker registry")

    async def end(self) -> None:
        """Stop the heartbeats and remove the row."""
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
            await self._registry.begin(self._worker, version("afterturn"), self._stages, self._model)
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
    """Wait until the process is to end; drain it once when an operator asks for that.

    A drained process claims nothing and stays alive, so that its supervisor does not restart it.
    """
    while not ending.wait(BEAT_S):
        if entry.wanted == "draining" and entry.state is None:
            for one in workers:
                one.pause()
            log.info("draining")
            loop.run_coroutine(drain(DRAIN_S))
            entry.state = "drained"
            log.info("drained")
