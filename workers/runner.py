"""Claim, work, finish: one loop for every stage. What a stage does is its own; how it may fail is settled here."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol, runtime_checkable
from uuid import UUID

import structlog

from embeddings.errors import ModelUnreachable
from store.errors import LeaseLost
from store.ledger import Claim, Ledger, LedgerRow, Outcome, Stage, public_status
from store.outage import is_outage
from workers.errors import Untold
from workers.leases import lost, renewed
from workers.metrics import STAGE_AGE, STAGE_FAILURES, STAGE_TOTAL
from workers.retry import Verdict, named

log = structlog.get_logger(__name__)

#: One nudge is worked on for about this long, in seconds; then it is passed on, so that others get their turn.
LONGEST_DRAIN_S = 5.0
#: Pause after the database could not be reached, in seconds.
OUTAGE_PAUSE_S = 1.0


Clock = Callable[[], datetime]


def _utc() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Shape:
    """How much a stage claims at once: `streams`, of each the first `rows`.

    Each stream is a piece of work of its own, all of them are one (`together`), or those of a bank are (`by_bank`).
    `valve`: the newest first, unless something was accepted longer ago than that; without it the oldest first.
    """

    streams: int
    rows: int
    together: bool = False
    by_bank: bool = False
    valve: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Worked:
    """What came of a piece of work: how rows ended, and which stages have something to do now."""

    outcomes: Sequence[Outcome] = ()
    rings: frozenset[Stage] = frozenset()


class StageWork(Protocol):
    """One stage. `work` writes its result and closes the claims in one transaction, or raises."""

    @property
    def stage(self) -> Stage:
        """Whose rows it takes."""
        ...

    @property
    def shape(self) -> Shape:
        """How much it takes at once."""
        ...

    async def work(self, claims: Sequence[Claim]) -> Worked:
        """Do the work of these claims (one, or as many as the shape puts together), holding no connection meanwhile.

        Raises LeaseLost when the claim is gone, Transient and Permanent on purpose, anything else by accident.
        """
        ...


@runtime_checkable
class Gated(Protocol):
    """A stage that at times wants less work than its shape says."""

    def at_most(self, streams: int) -> int:
        """Return how many streams to claim now, of so many."""
        ...


@dataclass(slots=True)
class Runner:
    """Drains one stage's ready work, on one event loop.

    `ring` tells workers of a stage; it returns at once and never raises. `drains` is how many nudges are worked on
    at a time, each on as much as the stage's shape says; `clock` only measures how old a turn is when it is done.
    """

    ledger: Ledger
    work: StageWork
    ring: Callable[[Stage], None]
    verdict: Verdict
    lease: timedelta
    worker: str
    drains: int = 1
    pause_s: float = OUTAGE_PAUSE_S
    clock: Clock = _utc
    stopping: bool = False
    _again: bool = False
    _running: set[asyncio.Task[None]] = field(default_factory=set)

    async def drain(self) -> None:
        """Work until nothing is ready. Never raises, so that a nudge is never repeated by the queue.

        When `drains` of them are at it in this process, one of those looks again instead.
        """
        if len(self._running) >= self.drains:
            self._again = True
            return
        task = asyncio.ensure_future(self._drain())
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not task.cancelled() and (error := task.exception()):
            log.error("a drain ended by accident", stage=self.work.stage.value, error=type(error).__name__)

    async def stop(self, grace_s: float) -> None:
        """Claim no more, let what runs end within `grace_s` seconds, then cut it and give its claims back."""
        self.stopping = True
        if running := set(self._running):
            _, late = await asyncio.wait(running, timeout=grace_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=grace_s)

    async def _drain(self) -> None:
        until = time.monotonic() + LONGEST_DRAIN_S
        self._again = True
        while self._again and not self.stopping:
            self._again = False
            while not self.stopping and (claims := await self._claim()):
                late = time.monotonic() > until
                if late or len(claims) >= self.work.shape.streams:
                    self.ring(self.work.stage)
                await self._all(claims)
                if late:
                    return

    async def _claim(self) -> list[Claim]:
        shape = self.work.shape
        streams = self.work.at_most(shape.streams) if isinstance(self.work, Gated) else shape.streams
        if not streams:
            return []
        try:
            return await self.ledger.claim(
                self.work.stage,
                streams=streams,
                rows=shape.rows,
                lease=self.lease,
                worker=self.worker,
                max_attempts=self.verdict.max_attempts,
                valve=shape.valve,
            )
        except Exception as error:  # noqa: BLE001 - whatever the driver raises, this process stays
            log.warning("no work could be claimed", stage=self.work.stage.value, error=type(error).__name__)
            await asyncio.sleep(self.pause_s)
            return []

    async def _all(self, claims: Sequence[Claim]) -> None:
        """Work on claims side by side, under renewed leases; what is cut short is given back."""
        jobs = {asyncio.ensure_future(self._one(group)): group for group in self._pieces(claims)}
        try:
            async with renewed(self.ledger, jobs, self.lease):
                await asyncio.wait(jobs)
        finally:
            for task in jobs:
                task.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)
            cut = [claim for task, group in jobs.items() if task.cancelled() for claim in group]
            await self._release(cut)

    def _pieces(self, claims: Sequence[Claim]) -> list[list[Claim]]:
        """Divide claims into pieces of work."""
        shape = self.work.shape
        if shape.together:
            return [list(claims)]
        pieces: dict[tuple[UUID, ...], list[Claim]] = defaultdict(list)
        for claim in claims:
            pieces[claim.host_id, claim.rows[0].bank_id if shape.by_bank else claim.stream_id].append(claim)
        return list(pieces.values())

    async def _one(self, claims: Sequence[Claim]) -> None:
        try:
            worked = await self.work.work(claims)
        except LeaseLost:
            lost(claims)
        except Exception as error:  # noqa: BLE001 - every accident ends in the ledger
            await self._failed(claims, error)
        else:
            self._count([row for claim in claims for row in claim.rows], worked.outcomes)
            for stage in worked.rings:
                self.ring(stage)

    async def _failed(self, claims: Sequence[Claim], error: Exception) -> None:
        category, _ = named(error)
        stage = self.work.stage.value
        STAGE_FAILURES.labels(stage, category).inc()
        log.warning("work failed", stage=stage, category=category, error=type(error).__name__)
        if is_outage(error) or isinstance(error, Untold | ModelUnreachable):
            await self._release(claims)
            await asyncio.sleep(self.pause_s)
        elif len(claims) > 1:
            for claim in claims:
                await self._one([claim])
        else:
            await self._record(claims[0], error)

    async def _record(self, claim: Claim, error: Exception) -> None:
        alone = len(claim.rows) == 1
        outcomes = [self.verdict.outcome(row, error, alone=alone) for row in claim.rows]
        try:
            recorded = await self.ledger.end([claim], outcomes)
        except Exception as second:  # noqa: BLE001 - the lease runs out, and the attempt is counted already
            log.warning("a failure could not be recorded", stage=claim.stage.value, error=type(second).__name__)
            return
        if recorded:
            self._count(claim.rows, outcomes)
        else:
            lost([claim])

    async def _release(self, claims: Sequence[Claim]) -> None:
        """Give claims back; a database that is away is asked again until the leases are over by themselves."""
        until = time.monotonic() + self.lease.total_seconds()
        while claims:
            try:
                await self.ledger.release(claims)
            except Exception as error:  # noqa: BLE001 - the lease runs out by itself
                log.warning("claims could not be given back", stage=self.work.stage.value, error=type(error).__name__)
                if self.stopping or not is_outage(error) or time.monotonic() > until:
                    return
                await asyncio.sleep(self.pause_s)
            else:
                return

    def _count(self, rows: Sequence[LedgerRow], outcomes: Sequence[Outcome]) -> None:
        stage = self.work.stage.value
        by_item = {row.item_id: row for row in rows}
        now, age, ended = self.clock(), STAGE_AGE.labels(stage), Counter[str]()
        for outcome in outcomes:
            status = public_status(outcome.status)
            ended["retried" if status in {"pending", "running"} else status] += 1
            row = by_item[outcome.item_id]
            if status == "done" and row.item_id == row.turn_id:
                age.observe(max(0.0, (now - row.accepted_at).total_seconds()))
        for status, rows_ended in ended.items():
            STAGE_TOTAL.labels(stage, status).inc(rows_ended)
