"""`afterturn workers list` and `afterturn worker drain`: which processes work, and taking one out of service."""

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deploy.cli.durations import parse_duration
from deploy.cli.operator_api import print_rows
from deploy.cli.output import exit_with, print_json, print_notice
from deploy.cli.running_stack import DataOption, JsonOption, find_running_stack

if TYPE_CHECKING:
    from store.ledger.workers import WorkerListed

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
    from deploy.cli.worker_draining import read_workers  # noqa: PLC0415

    found = read_workers(find_running_stack(data))
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
    # Only now: it loads the library of metrics, which must not be there before a worker's folder of samples is known.
    from deploy.cli.worker_draining import drain_workers  # noqa: PLC0415

    states = drain_workers(find_running_stack(data), names, wait or timedelta())
    if unknown := [name for name in names if name not in states]:
        raise exit_with(f"there is no worker {unknown[0]!r}; look with `afterturn workers list`", 2)
    if as_json:
        print_json({"workers": states})
    for name, state in states.items():
        print_notice(f"{name} is {state}")
    if wait is not None and any(state == "draining" for state in states.values()):
        raise typer.Exit(1)


def _as_json(worker: "WorkerListed") -> dict[str, Any]:
    shown = {**asdict(worker), "stages": ", ".join(worker.stages)}
    return {**shown, "started_at": worker.started_at.isoformat(), "seen_at": worker.seen_at.isoformat()}
