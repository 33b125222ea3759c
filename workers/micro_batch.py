"""The micro-batch: an idle API process embeds the turns it has just accepted.

It claims their rows as a worker would, so nothing is done twice, and workers do what it leaves. It is the
first thing to go under load: one small batch at a time and no queue. What comes while one runs is left to the workers,
and everything else for a while too, since more comes in than can be embedded here without delaying requests.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import structlog

from store.database import Database
from store.database_outage import may_pass
from store.errors import LeaseLost
from store.ledger.item_claims import claim_items
from store.ledger.ledger import Claim, Ledger
from store.ledger.stages import Stage
from workers.embedding import EmbeddingStage
from workers.metrics import MICRO_BATCH, STAGE_AGE, STAGE_TOTAL
from workers.stage_traces import trace_work

log = structlog.get_logger(__name__)

#: Longer than a batch of this size takes: it is not renewed. A slower batch is overtaken by a worker, and
#: writes nothing; a process that died with a batch keeps its turns from the workers for no longer.
LEASE = timedelta(seconds=15)
#: How long nothing is taken after turns came while a batch ran, in seconds.
STAND_ASIDE_S = 1.0


@dataclass(slots=True)
class MicroBatch:
    """Embeds what is offered, off the event loop; at most `turns` with `characters` in all, about 0.1 s of a model.

    `quiet`: whether the model is there and this tenant has little else waiting; `notify` has the
    workers do what is left.
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
        """Take turns that were just accepted; returns at once. False: they are left to the workers, notify them."""
        if self._takes(host, len(turns), characters):
            self._task = asyncio.get_running_loop().create_task(self._run(host, turns), name="micro-batch")
            return True
        MICRO_BATCH.labels("dropped").inc(len(turns))
        return False

    async def close(self, grace_s: float) -> None:
        """Take nothing more; what runs may end within `grace_s` seconds, then it is cut and given back."""
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
        claims = await self._claim(host, turns)
        MICRO_BATCH.labels("taken").inc(len(turns) - len(claims))
        if not claims:
            return
        try:
            async with trace_work(Ledger(self.database), claims) as spans:
                spans.note_outcomes((await self.stage.work(claims)).outcomes)
        except LeaseLost:
            return
        except BaseException:
            await self._give_back(claims)
            raise
        _count_claims(claims)

    async def _give_back(self, claims: Sequence[Claim]) -> None:
        """Leave claims to the workers at once; a database that is away is asked again until their lease is over."""
        until = time.monotonic() + LEASE.total_seconds()
        while True:
            try:
                return await Ledger(self.database).release(claims)
            except Exception as error:
                if not may_pass(error) or time.monotonic() > until:
                    raise
                await asyncio.sleep(self.pause_s)

    async def _claim(self, host: UUID, turns: Sequence[UUID]) -> list[Claim]:
        return await claim_items(self.database, host, Stage.EMBEDDING, turns, lease=LEASE, worker=self.worker)


def _count_claims(claims: Sequence[Claim]) -> None:
    MICRO_BATCH.labels("embedded").inc(len(claims))
    STAGE_TOTAL.labels(Stage.EMBEDDING, "done").inc(len(claims))
    now = datetime.now(UTC)
    ages = [max(0.0, (now - claim.rows[0].accepted_at).total_seconds()) for claim in claims]
    STAGE_AGE.labels(Stage.EMBEDDING).observe_all(ages)
