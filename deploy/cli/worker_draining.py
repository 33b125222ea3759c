"""Reading and draining worker processes on the database; `afterturn worker` loads this only when it drains."""

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta

from deploy.cli.operator_command import AuditedAct, run_audited, run_on_database
from deploy.local.stack import Stack
from store.database import Database
from store.ledger.workers import BEAT_S, WorkerListed, WorkerRegistry
from store.tenancy.call_audit import NO_HOST


def read_workers(stack: Stack) -> list[WorkerListed]:
    """Return the worker processes of a stack's database."""
    return run_on_database(stack, _read)


def drain_workers(stack: Stack, names: Sequence[str], patience: timedelta) -> dict[str, str]:
    """Have these drain (none named: all), and return how each stands once none drains any more or patience is over."""

    async def drain(database: Database, act: AuditedAct) -> list[str]:
        told = await WorkerRegistry(database).drain(names, everyone=not names)
        act.rows = len(told)
        return told

    told = run_audited(stack, "worker drain", NO_HOST, drain)
    meant = names or told

    async def await_end(database: Database) -> dict[str, str]:
        return await _await_drained(database, meant, patience)

    return run_on_database(stack, await_end)


async def _await_drained(database: Database, names: Sequence[str], patience: timedelta) -> dict[str, str]:
    until = time.monotonic() + patience.total_seconds()
    while True:
        states = {one.worker: one.state for one in await _read(database) if one.worker in names}
        if "draining" not in states.values() or time.monotonic() >= until:
            return states
        await asyncio.sleep(BEAT_S / 2)


async def _read(database: Database) -> list[WorkerListed]:
    return await WorkerRegistry(database).list()
