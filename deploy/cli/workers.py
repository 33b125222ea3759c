"""`afterturn workers list` and `afterturn worker drain`: list worker processes, and drain one before it is stopped."""

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

import typer
from afterturn_client.contract.operators import WorkerList

from deploy.cli.options import DataOption, JsonOption
from deploy.cli.output import exit_with, print_json, print_rows
from deploy.cli.running_stack import find_running_stack
from deploy.cli.times import parse_duration
from deploy.local.stack import Stack
from deploy.notices import print_notice

#: Between two looks at workers that drain, in seconds: half the time between their heartbeats.
LOOK_S = 1.0

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
    # Imported only now: it loads prometheus_client, which must not happen before a worker's folder of samples is known.
    from deploy.cli.operator_api import OperatorApi  # noqa: PLC0415

    print_rows(OperatorApi(find_running_stack(data)).call("GET", "/workers"), "workers", as_json=as_json)


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
    states = _drain_workers(find_running_stack(data), names, wait or timedelta())
    if unknown := [name for name in names if name not in states]:
        raise exit_with(f"there is no worker {unknown[0]!r}; look with `afterturn workers list`", 2)
    if as_json:
        print_json({"workers": states})
    for name, state in states.items():
        print_notice(f"{name} is {state}")
    if wait is not None and any(state == "draining" for state in states.values()):
        raise typer.Exit(1)


def _drain_workers(stack: Stack, names: Sequence[str], patience: timedelta) -> dict[str, str]:
    """Drain these workers (none named: all); return their states after that or the time-out."""
    from deploy.cli.operator_api import OperatorApi  # noqa: PLC0415 - as above

    api = OperatorApi(stack)
    told = api.call("POST", "/workers/drain", {"workers": list(names), "everyone": not names})["draining"]
    meant, until = names or told, time.monotonic() + patience.total_seconds()
    while True:
        found = api.read(WorkerList, "/workers").workers
        states = {one.worker: one.state for one in found if one.worker in meant}
        if "draining" not in states.values() or time.monotonic() >= until:
            return states
        time.sleep(LOOK_S)
