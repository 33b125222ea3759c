"""The micro-batch: a process that has the model anyway embeds the few turns it has just accepted, when it is quiet.

It claims their rows as a worker would, so nothing is done twice, and whatever it leaves is the workers'. It is the
first thing to go under load: the queue is short, one batch runs at a time, and a queue that was full is left alone for
a while.
"""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

import structlog

from store.claim_items import claim_items
from store.database import Database
from store.errors import LeaseLost
from store.ledger import Claim, Ledger, Stage
from workers.embedding import EmbeddingStage
from workers.metrics import MICRO_BATCH, STAGE_AGE, STAGE_TOTAL

log = structlog.get_logger(__name__)

#: Longer than any batch of this size takes: it is not renewed.
LEASE = timedelta(seconds=60)
#: How long a queue that was full is left alone, in seconds: somebody sends more than can be embedded here.
STAND_ASIDE_S = 1.0


@dataclass(slots=True)
class MicroBatch:
    """Embeds what is offered, off the event loop, `turns` at a time; at most `waiting` more may wait.

    `quiet`: whether the model is there and nothing else is in need; `ring` has the workers do what is left.
    """

    database: Database
    stage: EmbeddingStage
    quiet: Callable[[], bool]
    ring: Callable[[Stage], None]
    worker: str
    turns: int = 4
    waiting: int = 8
    clock: Callable[[], float] = time.monotonic
    _queue: deque[tuple[UUID, UUID]] = field(default_factory=deque)
    _aside_until: float = 0.0
    _task: asyncio.Task[None] | None = None

    def offer(self, host: UUID, turns: Sequence[UUID]) -> bool:
        """Take turns that were just accepted; returns at once. False: they are left to the workers, ring for them."""
        if self.clock() < self._aside_until or not self.quiet():
            MICRO_BATCH.labels("dropped").inc(len(turns))
            return False
        if len(self._queue) + len(turns) > self.waiting:
            self._aside_until = self.clock() + STAND_ASIDE_S
            MICRO_BATCH.labels("dropped").inc(len(turns))
            return False
        self._queue.extend((host, turn) for turn in turns)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="micro-batch")
        return True

    async def close(self) -> None:
        """Take nothing more; what runs ends, what waits is left to the workers."""
        self._aside_until = float("inf")
        if self._queue:
            self._queue.clear()
            self.ring(Stage.EMBEDDING)
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while self._queue:
            batch = [self._queue.popleft() for _ in range(min(self.turns, len(self._queue)))]
            try:
                await self._embed(batch)
            except Exception as error:  # noqa: BLE001 - whatever it was, workers take over what is left
                MICRO_BATCH.labels("failed").inc(len(batch))
                log.warning("a micro-batch failed", error=type(error).__name__)
                self.ring(Stage.EMBEDDING)

    async def _embed(self, batch: Sequence[tuple[UUID, UUID]]) -> None:
        by_host: dict[UUID, list[UUID]] = defaultdict(list)
        for host, turn in batch:
            by_host[host].append(turn)
        claims = [claim for host, turns in by_host.items() for claim in await self._claim(host, turns)]
        MICRO_BATCH.labels("taken").inc(len(batch) - len(claims))
        if not claims:
            return
        try:
            await self.stage.work(claims)
        except LeaseLost:
            return
        except BaseException:
            await Ledger(self.database).release(claims)
            raise
        _count(claims)

    async def _claim(self, host: UUID, turns: Sequence[UUID]) -> list[Claim]:
        return await claim_items(self.database, host, Stage.EMBEDDING, turns, lease=LEASE, worker=self.worker)


def _count(claims: Sequence[Claim]) -> None:
    MICRO_BATCH.labels("embedded").inc(len(claims))
    STAGE_TOTAL.labels(Stage.EMBEDDING, "done").inc(len(claims))
    now = datetime.now(UTC)
    for claim in claims:
        STAGE_AGE.labels(Stage.EMBEDDING).observe(max(0.0, (now - claim.rows[0].accepted_at).total_seconds()))
