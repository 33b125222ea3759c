"""Reading and draining worker processes; `afterturn worker` loads this only when it drains."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from deploy.cli.operator_api import find_operator_api
from deploy.cli.operator_command import AuditedAct, run_audited, run_on_database
from deploy.local.stack import Stack
from store.database import Database
from store.ledger.workers import BEAT_S, WorkerListed, WorkerRegistry
from store.tenancy.call_audit import NO_HOST


def read_workers(stack: Stack) -> list[WorkerListed]:
    """Return the worker processes, over the operator API or from the stack's database."""
    if api := find_operator_api(stack):
        return [_parse_worker(one) for one in api.call("GET", "/workers")["workers"]]
    return run_on_database(stack, _list_workers)


def drain_workers(stack: Stack, names: Sequence[str], patience: timedelta) -> dict[str, str]:
    """Drain these workers (none named: all); return their states after that or the time-out."""
    told = _tell_to_drain(stack, names)
    meant, until = names or told, time.monotonic() + patience.total_seconds()
    while True:
        states = {one.worker: one.state for one in read_workers(stack) if one.worker in meant}
        if "draining" not in states.values() or time.monotonic() >= until:
            return states
        time.sleep(BEAT_S / 2)


def _tell_to_drain(stack: Stack, names: Sequence[str]) -> list[str]:
    if api := find_operator_api(stack):
        asked = {"workers": list(names), "everyone": not names}
        return list(api.call("POST", "/workers/drain", asked)["draining"])

    async def drain(database: Database, act: AuditedAct) -> list[str]:
        told = await WorkerRegistry(database).drain(names, everyone=not names)
        act.rows = len(told)
        return told

    return run_audited(stack, "worker drain", NO_HOST, drain)


def _parse_worker(shown: Mapping[str, Any]) -> WorkerListed:
    times = {name: datetime.fromisoformat(shown[name]) for name in ("started_at", "seen_at")}
    return WorkerListed(**{**shown, **times})


async def _list_workers(database: Database) -> list[WorkerListed]:
    return await WorkerRegistry(database).list()
