"""The loop of every stage: claim, work, finish; handles all failures.

A stage works on a bounded number of streams at a time. When half of them have ended, the next are claimed: a slow
stream delays no other, and a claim brings enough rows to be worth its round trip. Where that takes longer than
PATIENCE_S, a few more are claimed: claims take tenants in turn, so another tenant's work goes on beside long work.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

import structlog

from embeddings.errors import ModelUnreachable
from store.clock import read_machine_time
from store.database_outage import is_outage
from store.errors import LeaseLost, ResourceBusy
from store.ledger.ledger import Claim, Ledger
from store.ledger.stages import Stage
from workers.errors import OutcomeUnrecorded
from workers.leases import keep_leases, record_lost, release_claims
from workers.metrics import STAGE_FAILURES
from workers.outcome_counts import count_outcomes
from workers.places import PATIENCE_S, Places
from workers.retry import RetryPolicy, name_failure
from workers.stage_traces import trace_work
from workers.stage_work import Gated, StageWork

log = structlog.get_logger(__name__)

#: Seconds after which a notification is answered at the latest, so that its thread can take others; the work goes on.
NOTIFICATION_WAIT_S = 5.0
#: Pause after the database could not be reached, in seconds.
OUTAGE_PAUSE_S = 1.0
#: How many streams are claimed beyond the room at once.
FEW = 2
#: How long work waits that was blocked by another transaction's lock.
BUSY_PAUSE = timedelta(seconds=10)


Clock = Callable[[], datetime]


@dataclass(slots=True)
class Runner:
    """The loop that works off one stage's ready rows, on one event loop.

    `notify` wakes the workers of a stage; it returns at once and never raises. `clock` only measures how old a turn is
    when it is done.
    """

    ledger: Ledger
    work: StageWork
    notify: Callable[[Stage], None]
    retry_policy: RetryPolicy
    lease: timedelta
    worker: str
    clock: Clock = read_machine_time
    pause_s: float = OUTAGE_PAUSE_S
    notification_wait_s: float = NOTIFICATION_WAIT_S
    stopping: bool = False
    _draining: asyncio.Task[None] | None = None
    #: Whether a notification came since the last look for work.
    _notified: bool = False
    #: Claims that are being worked on, by task; and claims whose task was cancelled.
    _under_way: dict[asyncio.Task[None], Sequence[Claim]] = field(default_factory=dict)
    _cancelled: list[Claim] = field(default_factory=list)
    #: Set when a piece of work ended or a notification came.
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    #: Limits how many pieces are worked on at the same time.
    _places: Places = field(init=False)
    #: Whether streams are claimed beyond the room, because work that was notified has waited for it.
    _beyond: bool = False

    def __post_init__(self) -> None:
        """Limit the pieces worked on at once by the size of the stage's claims."""
        self._places = Places(self.work.claim_size.at_once or self.work.claim_size.streams)

    async def drain(self) -> None:
        """Work until nothing is ready. Never raises, so that the queue never repeats a notification.

        A call while this process already drains only makes it look for work again. Returns after
        `notification_wait_s` even if work goes on.
        """
        self._notified = True
        self._changed.set()
        if self._draining is not None and not self._draining.done():
            return
        self._draining = asyncio.create_task(self._drain(), name=f"drain {self.work.stage}")
        self._draining.add_done_callback(self._log_failure)
        await asyncio.wait({self._draining}, timeout=self.notification_wait_s)

    async def stop(self, grace_s: float) -> None:
        """Claim no more; give running work `grace_s` or its stage's grace (the longer), then cancel and release it."""
        self.stopping = True
        if self._draining is not None:
            _, late = await asyncio.wait({self._draining}, timeout=max(grace_s, self.work.claim_size.grace_s))
            for task in late:
                task.cancel()
                await asyncio.wait({task}, timeout=grace_s)

    async def _drain(self) -> None:
        while self._notified and not self.stopping:
            try:
                async with keep_leases(self.ledger, self._under_way, self.lease):
                    while not self.stopping and await self._start_ready_work():
                        await self._wait_for_room()
                    await self._wait_until(lambda: not self._under_way)
            finally:
                await self._cancel_rest()

    async def _start_ready_work(self) -> bool:
        """Start ready work as far as there is room; return whether work is under way or a notification came."""
        self._notified = False
        room = max(self.work.claim_size.streams - self._count_streams(), FEW if self._beyond else 0)
        claims = await self._claim_streams(room)
        if claims and len(claims) >= room:
            # More may be ready than there was room for: any free worker may claim it.
            self.notify(self.work.stage)
        for group in self._split_pieces(claims):
            task = asyncio.create_task(self._run_when_free(group))
            self._under_way[task] = group
            task.add_done_callback(self._note_ended)
        return bool(self._under_way) or self._notified

    async def _wait_for_room(self) -> None:
        """Wait until half of the work has ended, or a notification comes while at least half of the room is free.

        What was notified waits for room no longer than PATIENCE_S, while less than twice the usual is under way.
        """
        left, streams = self._count_streams() // 2, self.work.claim_size.streams

        def has_room() -> bool:
            return self._count_streams() <= (streams // 2 if self._notified else left)

        self._beyond, until = False, None
        while not has_room():
            if self._notified and until is None:
                until = asyncio.get_running_loop().time() + PATIENCE_S
            self._changed.clear()
            try:
                async with asyncio.timeout_at(until):
                    await self._changed.wait()
            except TimeoutError:
                if self._count_streams() < 2 * streams:
                    self._beyond = True
                    return
                until = None

    async def _wait_until(self, enough: Callable[[], bool]) -> None:
        while not enough():
            self._changed.clear()
            await self._changed.wait()

    def _count_streams(self) -> int:
        return sum(map(len, self._under_way.values()))

    def _note_ended(self, task: asyncio.Task[None]) -> None:
        claims = self._under_way.pop(task)
        if task.cancelled():
            self._cancelled += claims
        self._changed.set()

    async def _cancel_rest(self) -> None:
        """Cancel the work that is still under way, and release its claims."""
        tasks = list(self._under_way)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        cancelled, self._cancelled = self._cancelled, []
        await self._release(cancelled)

    def _log_failure(self, drain: asyncio.Task[None]) -> None:
        if not drain.cancelled() and (error := drain.exception()):
            log.error("drain_failed", stage=self.work.stage.value, error=type(error).__name__)

    async def _claim_streams(self, room: int) -> list[Claim]:
        size = self.work.claim_size
        streams = self.work.at_most(room) if isinstance(self.work, Gated) else room
        if streams <= 0:
            return []
        try:
            return await self.ledger.claim(
                self.work.stage,
                streams=streams,
                rows=size.rows,
                lease=self.lease,
                worker=self.worker,
                max_attempts=self.retry_policy.max_attempts,
                oldest_first_after=size.oldest_first_after,
                by_bank=size.by_bank,
                most_bytes=size.most_bytes,
            )
        except Exception as error:  # noqa: BLE001 - an error of any kind must not end this process
            log.warning("claim_failed", stage=self.work.stage.value, error=type(error).__name__)
            await asyncio.sleep(self.pause_s)
            return []

    def _split_pieces(self, claims: Sequence[Claim]) -> list[list[Claim]]:
        """Divide claims into pieces of work by the size of the stage's claims."""
        size = self.work.claim_size
        pieces: dict[tuple[UUID, ...], list[Claim]] = defaultdict(list)
        for claim in claims:
            piece = claim.rows[0].bank_id if size.by_bank else claim.stream_id
            pieces[(claim.host_id,) if size.together > 1 else (claim.host_id, piece)].append(claim)
        if size.together == 1:
            return list(pieces.values())
        # Those of one tenant: another tenant's few rows do not wait for its many.
        return [
            of_host[start : start + size.together]
            for of_host in pieces.values()
            for start in range(0, len(of_host), size.together)
        ]

    async def _run_when_free(self, claims: Sequence[Claim]) -> None:
        async with self._places.hold(claims[0].host_id):
            await self._work_piece(claims)

    async def _work_piece(self, claims: Sequence[Claim]) -> None:
        try:
            async with trace_work(self.ledger, claims) as spans:
                worked = await self.work.work(claims)
                spans.note_outcomes(worked.outcomes)
        except LeaseLost:
            record_lost(claims)
        except Exception as error:  # noqa: BLE001 - every accident ends in the ledger
            await self._handle_failure(claims, error)
        else:
            count_outcomes(claims, worked.outcomes, self.clock())
            for stage in worked.ready_stages:
                self.notify(stage)

    async def _handle_failure(self, claims: Sequence[Claim], error: Exception) -> None:
        category, _ = name_failure(error)
        stage = self.work.stage.value
        STAGE_FAILURES.labels(stage, category).inc()
        log.warning("work_failed", stage=stage, category=category, error=type(error).__name__)
        if isinstance(error, ResourceBusy):
            await self._retry_later(claims)
        elif is_outage(error) or isinstance(error, OutcomeUnrecorded | ModelUnreachable):
            await self._release(claims)
            await asyncio.sleep(self.pause_s)
        elif len(claims) > 1:
            for claim in claims:
                await self._work_piece([claim])
        else:
            await self._record_failure(claims[0], error)

    async def _retry_later(self, claims: Sequence[Claim]) -> None:
        """Release claims that another transaction's lock blocks, for `BUSY_PAUSE`; that counts as no attempt.

        Claims of several banks are first tried again bank by bank, so that only the blocked bank waits.
        """
        banks: dict[tuple[UUID, UUID], list[Claim]] = defaultdict(list)
        for claim in claims:
            banks[claim.host_id, claim.rows[0].bank_id].append(claim)
        if len(banks) > 1:
            for of_bank in banks.values():
                await self._work_piece(of_bank)
        else:
            await self._release(claims, BUSY_PAUSE)

    async def _record_failure(self, claim: Claim, error: Exception) -> None:
        alone = len(claim.rows) == 1
        outcomes = [self.retry_policy.decide_outcome(row, error, alone=alone) for row in claim.rows]
        try:
            recorded = await self.ledger.end([claim], outcomes)
        except Exception as second:  # noqa: BLE001 - the lease runs out, and the attempt is counted already
            log.warning("failure_not_recorded", stage=claim.stage.value, error=type(second).__name__)
            return
        if recorded:
            count_outcomes([claim], outcomes, self.clock())
        else:
            record_lost([claim])

    async def _release(self, claims: Sequence[Claim], wait: timedelta | None = None) -> None:
        await release_claims(
            self.ledger, claims, self.lease, wait=wait, pause_s=self.pause_s, is_stopping=lambda: self.stopping
        )
