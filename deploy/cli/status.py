"""`afterturn status`: number of turns and the progress of each stage."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any

import psutil
import typer
from afterturn_client.contract.operators import PipelineStatus
from rich.console import Group
from rich.live import Live
from rich.text import Text

from deploy.cli.ledger_rows import format_seconds
from deploy.cli.operator_api import OperatorApi, read_answer
from deploy.cli.options import DataOption, JsonOption
from deploy.cli.output import as_api_json, create_console, print_json
from deploy.cli.running_stack import find_running_stack
from deploy.cli.stage_progress import Speed, Speeds, poll_forever
from deploy.cli.times import parse_duration
from deploy.local.stack import Stack
from deploy.notices import print_notice
from deploy.tables import ResultTable
from store.ledger.ledger import PUBLIC_STATUSES

MIB = 1024 * 1024


def status_command(
    *,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Refresh until Ctrl-C; with --json, one object a line.")
    ] = False,
    every: Annotated[
        timedelta,
        typer.Option(parser=parse_duration, metavar="LENGTH", help="Seconds between refreshes of --watch."),
    ] = timedelta(seconds=2),
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the work of every stage: pending, running, done, skipped, unknown and dead.

    Dead work is quarantined with a reason; `oldest` is the age of the oldest undone work. `--watch` adds turns per
    second and the estimated time until a stage is done.

    **Example:** `afterturn status --watch`
    """
    stack = find_running_stack(data)
    api = OperatorApi(stack)

    def look() -> PipelineStatus:
        return read_answer(PipelineStatus, api.ask("GET", "/status"))

    if watch:
        try:
            asyncio.run(_watch_status(partial(asyncio.to_thread, look), every, as_json=as_json))
        except KeyboardInterrupt:
            raise typer.Exit(0) from None
    status, memory = api.read(PipelineStatus, "/status"), measure_memory(stack)
    if as_json:
        measured = {} if memory is None else {"memory_pss_mb": round(memory / MIB, 1)}
        print_json({**as_api_json(status), **measured})
    else:
        create_console().print(_render_status(status, memory=memory))


async def _watch_status(look: Callable[[], Awaitable[PipelineStatus]], every: timedelta, *, as_json: bool) -> None:
    """Print every refresh; in a terminal, in place."""
    screen, speeds = create_console(), Speeds()
    in_place = Live(console=screen, auto_refresh=False) if screen.is_terminal and not as_json else None
    with in_place or nullcontext():
        async for status in poll_forever(look, every, print_notice):
            speed = speeds.after(status.stages, status.rows)
            if as_json:
                print_json({"at": datetime.now(UTC).isoformat(), **as_api_json(status), **_serialise_speeds(speed)})
            elif in_place:
                in_place.update(_render_status(status, speed), refresh=True)
            else:
                screen.print(_render_status(status, speed))


def measure_memory(stack: Stack) -> int | None:
    """Return the proportional set size, in bytes, of `up` and all its child processes.

    None for a remote service, for processes of another user, or where the system does not report it.
    """
    if not stack.processes:
        return None
    total = 0
    try:
        up = psutil.Process(stack.pid)
        for process in (up, *up.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                total += int(process.memory_full_info().pss)
    except (psutil.Error, AttributeError):
        return None
    return total


def _serialise_speeds(speeds: Mapping[str, Speed]) -> dict[str, Any]:
    return {
        "per_s": {stage: round(speed.per_s, 2) for stage, speed in speeds.items()},
        "eta_s": {stage: None if one.eta_s is None else round(one.eta_s, 1) for stage, one in speeds.items()},
    }


def _render_status(
    status: PipelineStatus, speeds: Mapping[str, Speed] | None = None, *, memory: int | None = None
) -> Group:
    numbers = (*PUBLIC_STATUSES, "oldest", *(("per s", "left") if speeds else ()))
    table = ResultTable("stage", *numbers, numbers=numbers)
    for stage, counts in status.stages.items():
        oldest = status.oldest_by_stage_s[stage]
        shown = [Text(str(counts[name]), style="red" if name == "dead" and counts[name] else "") for name in counts]
        table.add_values(
            stage,
            *shown,
            format_seconds(oldest) if oldest else "",
            *(_format_speed(speeds[stage]) if speeds else ()),
        )
    lag = (
        f"{status.undone} pieces of work undone, the oldest for {format_seconds(status.oldest_undone_s)}"
        if status.undone
        else "all done"
    )
    used = "" if memory is None else f"; {memory / MIB:.0f} MiB of memory"
    return Group(Text(f"{status.turns} turns; {lag}; {status.dead} dead{used}"), table)


def _format_speed(speed: Speed) -> tuple[str, str]:
    """Return a stage's speed and remaining time in words; '' when it has nothing to do."""
    left = "?" if speed.eta_s is None else format_seconds(speed.eta_s) if speed.eta_s else ""
    return f"{speed.per_s:.1f}" if speed.per_s else "", left
