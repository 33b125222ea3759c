"""`afterturn workers list` and `afterturn worker drain`: list worker processes, and drain one before it is stopped."""

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deploy.cli.options import DataOption, JsonOption
from deploy.cli.output import exit_with, print_json, print_rows
from deploy.cli.running_stack import find_running_stack
from deploy.cli.times import parse_duration
from deploy.notices import print_notice

if TYPE_CHECKING:
    from store.ledger.workers import WorkerListed

workers_app = typer.Typer(help="List worker processes.", no_args_is_help=True, rich_markup_mode="markdown")


@workers_app.callback()
def _keep_group() -> None:
    """Keep `list` a command of its own."""


@workers_app.command("list")
def list_command(*, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List worker processes: name, version, stages, start time and number of claims.

    `gone`: no heartbeat for 15 s; its claims are taken over when their leases expire.

    **Example:** `afterturn workers list`
    """
    from deploy.cli.worker_draining import read_workers  # noqa: PLC0415

    found = read_workers(find_running_stack(data))
    print_rows({"workers": [_as_json(one) for one in found]}, "workers", as_json=as_json)


def drain_command(
    workers: Annotated[
        list[str] | None, typer.Argument(metavar="WORKER", help="Worker names, from `afterturn workers list`.")
    ] = None,
    *,
    everyone: Annotated[bool, typer.Option("--all", help="Drain all worker processes.")] = False,
    wait: Annotated[
        timedelta | None,
        typer.Option(
            parser=parse_duration, metavar="LENGTH", help="Wait until they are drained, at most this long: 5m."
        ),
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Drain worker processes: they finish their work, claim no more, and stay idle until they are stopped.

    Other workers take over waiting work. With `--wait`, exits 1 when one is not drained in time.

    **Example:** `afterturn worker drain node1:4711:0b7c11aa --wait 5m`
    """
    names = workers or []
    if bool(names) == everyone:
        raise typer.BadParameter("name workers, or give --all")
    # Imported only now: it loads prometheus_client, which must not happen before a worker's folder of samples is known.
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
