"""The micro-batch: an idle API process embeds the turns it has just accepted.

It claims their rows as a worker would, so nothing is done twice, and workers embed the rest. Under load it stops
first: it runs one small batch at a time, without a queue. Turns that come while a batch runs go to the workers, and
so do all turns of the next `STAND_ASIDE_S` seconds, since embedding them here would delay requests.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import structlog

from store.clock import read_machine_time
from store.database import Database
from store.errors import LeaseLost
from store.ledger.ledger import Ledger
from store.ledger.stages import Stage
from workers.embedding import EmbeddingStage
from workers.leases import release_claims
from workers.metrics import MICRO_BATCH
from workers.outcome_counts import count_outcomes
from workers.stage_traces import trace_work

log = structlog.get_logger(__name__)

#: Longer than a batch of this size takes, since it is not renewed. A worker takes over a batch that is slower, which
#: then writes nothing; when the process dies, workers get the turns after this time.
LEASE = timedelta(seconds=15)
#: Seconds without a new batch after turns arrived during a running one.
STAND_ASIDE_S = 1.0


@dataclass(slots=True)
class MicroBatch:
    """Embeds accepted turns off the event loop: at most `turns` of them with `characters` in all, about 0.1 s.

    `quiet`: whether the model is loaded and this tenant has little other work waiting; `notify` wakes the workers
    for the rest.
    """

    database: Database
    stage: EmbeddingStage
    quiet: Callable[[UUID], bool]
    notify: Callable[[Stage], None]
    worker: str
    turns: int = 8
    characters: int = 4_000
    clock: Callable[[], float] = time.monotonic
    pause_s: float = 1.0
    _aside_until: float = 0.0
    _task: asyncio.Task[None] | None = None

    def offer(self, host: UUID, turns: Sequence[UUID], characters: int) -> bool:
        """Start embedding turns that were just accepted and return True at once; False: notify the workers instead."""
        if self._takes(host, len(turns), characters):
            self._task = asyncio.get_running_loop().create_task(self._run(host, turns), name="micro-batch")
            return True
        MICRO_BATCH.labels("dropped").inc(len(turns))
        return False

    async def close(self, grace_s: float) -> None:
        """Refuse further turns; give the running batch `grace_s` seconds, then cancel it and release its claims."""
        self._aside_until = float("inf")
        if self._task is not None:
            await asyncio.wait([self._task], timeout=grace_s)
            self._task.cancel()
            await asyncio.wait([self._task], timeout=grace_s)

    def _takes(self, host: UUID, turns: int, characters: int) -> bool:
        if self._task is not None and not self._task.done():
            self._aside_until = max(self._aside_until, self.clock() + STAND_ASIDE_S)
        small = turns <= self.turns and characters <= self.characters
        return small and self.clock() >= self._aside_until and self.quiet(host)

    async def _run(self, host: UUID, turns: Sequence[UUID]) -> None:
        try:
            await self._embed(host, turns)
        except Exception as error:  # noqa: BLE001 - after an error of any kind workers take over what is left
            MICRO_BATCH.labels("failed").inc(len(turns))
            log.warning("micro_batch_failed", error=type(error).__name__)
            self.notify(Stage.EMBEDDING)

    async def _embed(self, host: UUID, turns: Sequence[UUID]) -> None:
        ledger = Ledger(self.database)
        claims = await ledger.claim_items(host, Stage.EMBEDDING, turns, lease=LEASE, worker=self.worker)
        MICRO_BATCH.labels("taken").inc(len(turns) - len(claims))
        if not claims:
            return
        try:
            async with trace_work(ledger, claims) as spans:
                worked = await self.stage.work(claims)
                spans.note_outcomes(worked.outcomes)
        except LeaseLost:
            return
        except BaseException:
            await release_claims(ledger, claims, LEASE, pause_s=self.pause_s)
            raise
        MICRO_BATCH.labels("embedded").inc(len(claims))
        count_outcomes(claims, worked.outcomes, read_machine_time())
