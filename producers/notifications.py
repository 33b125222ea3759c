"""Rings for workers after a commit: best effort, coalesced, and never in the way of a request."""

import asyncio
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from uuid import UUID

import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.errors import BrokerError

from producers import metrics
from producers.jobs import FLAG_MS, JOB_FLAG_MS, bell_channel, flag_key, recall_message, stage_message
from store.ledger.stages import Stage

#: Pause between two trips to Redis: what is rung for meanwhile shares the next one.
SPACING_S = 0.02
#: Pause after a trip that failed.
BACK_OFF_S = 1.0
#: How long a closing process tries to hand in its last rings.
LAST_WORD_S = 1.0
#: Recall jobs that wait for Redis to come back; the sweeper rings for the rest.
JOBS_KEPT = 1000

FAULTS = (redis.RedisError, BrokerError, OSError)


class Doorbell:
    """Tells workers that there is something to do. Ring after the commit, on the loop that owns the instance.

    Ringing returns at once; a task of its own does the talking on a thread of its own, with the timeouts of the
    broker's client. A broker that is down costs nothing but the metric: rings are kept and handed in when it is back.
    """

    def __init__(self, broker: RedisBroker) -> None:
        self._broker = broker
        self._stages: set[Stage] = set()
        self._jobs: dict[tuple[UUID, UUID], None] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="doorbell")

    def ring(self, *stages: Stage) -> None:
        """Note that these stages have new work, and wake the task."""
        self._stages.update(stages)
        self._awake()

    def ask(self, host: UUID, job: UUID) -> None:
        """Note that a recall job waits for its answer; who notes it again while it is noted changes nothing."""
        self._note([(host, job)])
        self._awake()

    def answered(self, rung_for: Stage | UUID) -> None:
        """Take the flag of a stage or a job down; a worker calls it before it claims. Not for the event loop.

        Talks to Redis. A broker that is down is no reason not to work: the flag then ends by itself.
        """
        with suppress(*FAULTS):
            self._broker.client.delete(flag_key(self._broker.namespace, rung_for))

    async def reachable(self) -> bool:
        """Say whether Redis answers."""
        try:
            return bool(await asyncio.get_running_loop().run_in_executor(None, self._broker.client.ping))
        except FAULTS:
            return False

    async def close(self) -> None:
        """Hand in what was rung for, for a second at most, and stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            with suppress(TimeoutError, *FAULTS):
                async with asyncio.timeout(LAST_WORD_S):
                    await self._trip()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _awake(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="doorbell")
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._trip()
            except FAULTS:
                metrics.RINGS.labels("failed").inc()
                self._wake.set()
                await asyncio.sleep(BACK_OFF_S)
            await asyncio.sleep(SPACING_S)

    async def _trip(self) -> None:
        """Bring what was rung for to Redis; what could not be brought stays noted."""
        stages, jobs = list(self._stages), list(self._jobs)
        self._stages.clear()
        self._jobs.clear()
        if not stages and not jobs:
            return
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._send, stages, jobs)
        except BaseException:
            self._stages.update(stages)
            newer, self._jobs = list(self._jobs), dict.fromkeys(jobs)
            self._note(newer)
            raise

    def _note(self, jobs: Iterable[tuple[UUID, UUID]]) -> None:
        """Keep jobs until they are handed in; the first that were noted go when there are too many."""
        self._jobs.update(dict.fromkeys(jobs))
        while len(self._jobs) > JOBS_KEPT:
            del self._jobs[next(iter(self._jobs))]

    def _send(self, stages: list[Stage], jobs: list[tuple[UUID, UUID]]) -> None:
        ours = self._unflagged(dict.fromkeys(stages, FLAG_MS) | dict.fromkeys((job for _, job in jobs), JOB_FLAG_MS))
        messages = [stage_message(stage) for stage in stages if stage in ours]
        messages += [recall_message(host, job) for host, job in jobs if job in ours]
        for message in messages:
            self._broker.enqueue(message)
        metrics.RINGS.labels("sent").inc(len(messages))
        if queues := {message.queue_name for message in messages}:
            self._broker.client.publish(bell_channel(self._broker.namespace), " ".join(sorted(queues)))

    def _unflagged(self, lasting_ms: Mapping[Stage | UUID, int]) -> set[Stage | UUID]:
        """Flag all that is rung for, so long, in one trip; return what had no flag."""
        pipeline = self._broker.client.pipeline(transaction=False)
        for rung_for, flag_ms in lasting_ms.items():
            pipeline.set(flag_key(self._broker.namespace, rung_for), 1, nx=True, px=flag_ms)
        ours = {rung_for for rung_for, won in zip(lasting_ms, pipeline.execute(), strict=True) if won}
        metrics.RINGS.labels("coalesced").inc(len(lasting_ms) - len(ours))
        return ours
