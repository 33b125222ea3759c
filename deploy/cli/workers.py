"""`afterturn workers list` and `afterturn worker drain`: which processes work, and taking one out of service."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated, Any

import typer

from deploy.cli.durations import parse_duration
from deploy.cli.operator_api import print_rows
from deploy.cli.operator_command import AuditedAct, run_audited, run_on_database
from deploy.cli.output import exit_with, print_json, print_notice
from deploy.cli.running_stack import DataOption, JsonOption, find_running_stack
from store.database import Database
from store.ledger.workers import BEAT_S, WorkerListed, WorkerRegistry
from store.tenancy.call_audit import NO_HOST

workers_app = typer.Typer(help="List worker processes.", no_args_is_help=True, rich_markup_mode="markdown")


@workers_app.callback()
def _keep_group() -> None:
    """Keep `list` a command of its own."""


@workers_app.command("list")
def list_command(*, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List worker processes: who, which version, which stages, since when, and how many streams of work each holds.

    `gone`: it was silent for 15 s; what it held is taken over when its lease is over.

    **Example:** `afterturn workers list`
    """
    found = run_on_database(find_running_stack(data), _read)
    print_rows({"workers": [_as_json(one) for one in found]}, "workers", as_json=as_json)


def drain_command(
    workers: Annotated[
        list[str] | None, typer.Argument(metavar="WORKER", help="Names, as `afterturn workers list` shows them.")
    ] = None,
    *,
    everyone: Annotated[bool, typer.Option("--all", help="All worker processes.")] = False,
    wait: Annotated[
        timedelta | None,
        typer.Option(parser=parse_duration, metavar="LENGTH", help="Wait so long until they are drained: 5m."),
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have worker processes end what they do and take no more; then they stay idle until they are stopped.

    Others go on with the work that waits. With `--wait`, exits 1 when one is not drained in time.

    **Example:** `afterturn worker drain node1:4711:0b7c11aa --wait 5m`
    """
    names = workers or []
    if bool(names) == everyone:
        raise typer.BadParameter("name workers, or give --all")
    stack = find_running_stack(data)

    async def drain(database: Database, act: AuditedAct) -> list[str]:
        told = await WorkerRegistry(database).drain(names, everyone=everyone)
        act.rows = len(told)
        return told

    told = run_audited(stack, "worker drain", NO_HOST, drain)
    meant = told if everyone else names

    async def await_end(database: Database) -> dict[str, str]:
        return await _await_drained(database, meant, wait or timedelta())

    states = run_on_database(stack, await_end)
    if unknown := [name for name in names if name not in states]:
        raise exit_with(f"there is no worker {unknown[0]!r}; look with `afterturn workers list`", 2)
    if as_json:
        print_json({"workers": states})
    for name, state in states.items():
        print_notice(f"{name} is {state}")
    if wait is not None and any(state == "draining" for state in states.values()):
        raise typer.Exit(1)


async def _await_drained(database: Database, names: Sequence[str], patience: timedelta) -> dict[str, str]:
    """Return how these stand, once none drains any more or the patience is over."""
    until = time.monotonic() + patience.total_seconds()
    while True:
        states = {one.worker: one.state for one in await _read(database) if one.worker in names}
        if "draining" not in states.values() or time.monotonic() >= until:
            return states
        await asyncio.sleep(BEAT_S / 2)


async def _read(database: Database) -> list[WorkerListed]:
    return await WorkerRegistry(database).list()


def _as_json(worker: WorkerListed) -> dict[str, Any]:
    shown = {**asdict(worker), "stages": ", ".join(worker.stages)}
    return {**shown, "started_at": worker.started_at.isoformat(), "seen_at": worker.seen_at.isoformat()}
