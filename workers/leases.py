"""Renews the leases of work in progress, cancels work whose lease is lost, and releases claims early."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

import structlog

from store.concurrent_calls import run_meanwhile
from store.database_outage import may_pass
from store.ledger.ledger import Claim, Ledger
from workers.metrics import LEASES_LOST

log = structlog.get_logger(__name__)

Jobs = Mapping[asyncio.Task[None], Sequence[Claim]]


def keep_leases(ledger: Ledger, jobs: Jobs, lease: timedelta) -> AbstractAsyncContextManager[object]:
    """Renew the claims of the running tasks every third of a lease; cancel a task that has lost all of its claims.

    While the database is out of reach, tasks go on until their lease must have run out.
    """
    return run_meanwhile(_renew_leases(ledger, jobs, lease), "renew leases")


async def _renew_leases(ledger: Ledger, jobs: Jobs, lease: timedelta) -> None:
    good_until = time.monotonic() + lease.total_seconds()
    while True:
        await asyncio.sleep(lease.total_seconds() / 3)
        requested_at = time.monotonic()
        running = {task: claims for task, claims in jobs.items() if not task.done()}
        try:
            held = await ledger.renew([one for claims in running.values() for one in claims], lease)
        except Exception as error:  # noqa: BLE001 - an error of any kind: the lease expires by itself
            log.warning("lease_renewal_failed", error=type(error).__name__)
            if time.monotonic() < good_until:
                continue
            held = set()
        else:
            good_until = requested_at + lease.total_seconds()
        for task, claims in running.items():
            if not task.done() and not any(one.epoch in held for one in claims):
                record_lost(claims)
                task.cancel()


async def release_claims(
    ledger: Ledger,
    claims: Sequence[Claim],
    lease: timedelta,
    *,
    wait: timedelta | None = None,
    pause_s: float,
    is_stopping: Callable[[], bool] = lambda: False,
) -> None:
    """Release claims; their rows are ready again after `wait`. Never raises: a lease runs out by itself.

    While the database is away, this is tried again every `pause_s` seconds, until the lease is over or the process
    stops.
    """
    until = time.monotonic() + lease.total_seconds()
    while claims:
        try:
            await ledger.release(claims, wait)
        except Exception as error:  # noqa: BLE001 - an error of any kind: the lease expires by itself
            log.warning("claim_release_failed", stage=claims[0].stage.value, error=type(error).__name__)
            if is_stopping() or not may_pass(error) or time.monotonic() > until:
                return
            await asyncio.sleep(pause_s)
        else:
            return


def record_lost(claims: Sequence[Claim]) -> None:
    """Count and log claims whose lease is lost, and whose result is thrown away."""
    LEASES_LOST.labels(claims[0].stage.value).inc(len(claims))
    log.warning("lease_lost", stage=claims[0].stage.value, claims=len(claims))
