"""`afterturn api`, `worker` and `workers`: run the processes on your own servers, list them, and drain one."""

import asyncio
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from afterturn_client.contract.operators import WorkerList

from deploy.api.__main__ import find_free_address
from deploy.api.__main__ import main as run_api
from deploy.cli.options import DataOption, JsonOption, create_group
from deploy.cli.output import exit_with, print_json, print_rows
from deploy.cli.running_stack import find_running_stack, read_settings
from deploy.cli.times import parse_duration
from deploy.components.database_checks import find_schema_problem
from deploy.local.child import Child
from deploy.local.errors import EmbeddedError
from deploy.local.stack import Stack
from deploy.local.supervisor import Supervisor
from deploy.notices import print_notice
from deploy.settings import Settings, find_missing_urls
from deploy.worker.__main__ import main as run_worker
from deploy.worker.__main__ import prepare_environment

#: Between two looks at workers that drain, in seconds: half the time between their heartbeats.
LOOK_S = 1.0

workers_app = create_group()


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


ConfigOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A YAML or JSON file of settings (default: AFTERTURN_CONFIG).")
]
ProcessesOption = Annotated[int, typer.Option(min=1, max=64, help="Number of processes; one that dies is restarted.")]


def api_command(*, processes: ProcessesOption = 1, config: ConfigOption = None) -> None:
    """Run the API on the configured PostgreSQL and Redis until SIGTERM or Ctrl-C.

    Needs `database.url`, `database.operator_url` and `broker.url`; listens at `api.host` and `api.port`. All processes
    share the address and the folder of samples: `/metrics` of any one shows the figures of all. Fair shares between
    tenants and the limits of a client address are counted in each process alone. Exits 2 for unusable settings.

    **Example:** `AFTERTURN_API__HOST=0.0.0.0 afterturn api --processes 4`
    """
    settings = check_settings(config)
    if processes == 1:
        raise typer.Exit(run_api(config_arguments(config)))
    address = find_free_address(settings.api.host, settings.api.port)
    if settings.api.port == 0 or isinstance(address, OSError):
        why = "choose a port" if settings.api.port == 0 else str(address)
        raise exit_with(f"cannot listen on {settings.api.host}:{settings.api.port}: {why} (api.host, api.port)", 2)
    _supervise_processes("api", ["deploy.api", "--shared", *config_arguments(config)], processes)


worker_app = typer.Typer(invoke_without_command=True, rich_markup_mode="markdown")


@worker_app.callback()
def worker_command(
    context: typer.Context,
    *,
    stages: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="What these do: gateway, extraction, enrichment, embedding, projection, recall (default: all).",
        ),
    ] = None,
    processes: ProcessesOption = 1,
    config: ConfigOption = None,
) -> None:
    """Run worker processes on the configured PostgreSQL and Redis until SIGTERM or Ctrl-C.

    Any number of workers on any number of machines share the work. Claims of a killed worker expire and are taken over
    within `worker.lease_seconds`; a stopped worker releases its claims within 10 s. Each stage needs at least one
    worker. Exits 2 for unusable settings, 1 when the model or the broker is unavailable.

    **Example:** `afterturn worker --stages embedding --processes 2`
    """
    if context.invoked_subcommand is not None:
        return
    _serve_probes(check_settings(config))
    arguments = [*config_arguments(config), *(["--stages", stages] if stages else [])]
    if processes == 1:
        raise typer.Exit(run_worker(arguments))
    _supervise_processes("worker", ["deploy.worker", *arguments], processes)


def _serve_probes(settings: Settings) -> None:
    """Serve metrics and health of this machine's workers if a port is set; exits 2 when another program has it."""
    if not settings.worker.metrics_port:
        return
    if not prepare_environment(settings):
        raise typer.Exit(2)
    # Imported only now: prometheus_client decides at import whether processes share their samples.
    from deploy.worker.probes import serve_probes  # noqa: PLC0415

    place = f"{settings.worker.metrics_host}:{settings.worker.metrics_port}"
    try:
        serves = serve_probes(settings)
    except OSError as error:
        raise exit_with(
            f"cannot listen on {place}: {error.strerror} (worker.metrics_host, worker.metrics_port)", 2
        ) from None
    if not serves:
        print_notice(f"another worker with this data folder serves {place} for all; this one takes over when it stops")


def check_settings(config: Path | None) -> Settings:
    """Return the settings if a process can start with them; exits 2 with the remedy otherwise."""
    settings = read_settings(config)
    if missing := find_missing_urls(settings):
        raise exit_with(f"not set: {', '.join(missing)}; docs/operations.md shows how a service is set up", 2)
    if problem := asyncio.run(find_schema_problem(settings.database.url.get_secret_value())):
        raise exit_with(problem, 2)
    return settings


def config_arguments(config: Path | None) -> list[str]:
    """Return the arguments that pass a settings file on to a process."""
    return ["--config", str(config)] if config else []


def _supervise_processes(name: str, module: Sequence[str], count: int) -> None:
    """Keep a number of processes of a module running until a signal, then exit with the supervisor's status."""
    argv = (sys.executable, "-P", "-m", *module)
    children = [Child(name=f"{name}-{n}", argv=argv) for n in range(1, count + 1)]
    supervisor = Supervisor(say=print_notice)
    try:
        status = asyncio.run(supervisor.run(lambda: supervisor.start(*children)))
    except EmbeddedError as error:
        raise exit_with(str(error), 1) from None
    raise typer.Exit(status)


worker_app.command("drain")(drain_command)
