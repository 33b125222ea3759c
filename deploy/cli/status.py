"""`afterturn status`: number of turns and the progress of each stage."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any

import psutil
import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from deploy.cli.ledger_rows import format_seconds
from deploy.cli.operator_api import find_operator_api
from deploy.cli.operator_command import run_on_database
from deploy.cli.options import DataOption, JsonOption
from deploy.cli.output import create_console, print_json
from deploy.cli.running_stack import find_running_stack
from deploy.cli.stage_progress import Speed, Speeds, poll_forever
from deploy.cli.times import parse_duration
from deploy.local.stack import Stack
from deploy.notices import print_notice
from deploy.tables import ResultTable
from store.database import Database
from store.ledger.ledger import PUBLIC_STATUSES, Ledger, StageCounts
from store.ledger.stages import TURN_STAGES, Stage

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """`turns` counts turns by stage and status; `rows` counts undone and failed work, follow-ups included.

    `memory_bytes` is the proportional set size of the stack's processes on this machine.
    """

    turns: Mapping[Stage, StageCounts]
    rows: Mapping[Stage, StageCounts]
    memory_bytes: int | None = None

    @property
    def accepted(self) -> int:
        """Number of accepted turns: each has a row in every stage."""
        return max(sum(stage.counts.values()) for stage in self.turns.values())

    @property
    def stages(self) -> list[Stage]:
        """The stages to show: those of every turn, and others that ever had work."""
        return [s for s in Stage if s in TURN_STAGES or any(self.turns[s].counts.values())]

    @property
    def oldest_undone_s(self) -> float:
        """Age in seconds of the oldest undone work."""
        return max(stage.oldest_undone_s for stage in self.rows.values())

    def of(self, *statuses: str) -> int:
        """Return the number of rows of all stages with one of these statuses."""
        return sum(stage.counts[status] for stage in self.rows.values() for status in statuses)


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
    api = find_operator_api(stack)
    if watch:
        try:
            if api:
                asyncio.run(_watch_status(partial(asyncio.to_thread, _ask_status, api.ask), every, as_json=as_json))
            else:
                run_on_database(
                    stack, lambda database: _watch_status(partial(_read_status, database), every, as_json=as_json)
                )
        except KeyboardInterrupt:
            raise typer.Exit(0) from None
    status = _ask_status(api.call) if api else run_on_database(stack, _read_status)
    status = replace(status, memory_bytes=measure_memory(stack))
    if as_json:
        print_json(_serialise_status(status))
    else:
        create_console().print(_render_status(status))


async def _read_status(database: Database) -> PipelineStatus:
    ledger = Ledger(database)
    return PipelineStatus(await ledger.counts(), await ledger.gauges())


def _ask_status(ask: Callable[[str, str], Any]) -> PipelineStatus:
    """Return the status as the operators' API tells it; raises what `ask` raises."""
    told = ask("GET", "/status")
    none = dict.fromkeys(PUBLIC_STATUSES, 0)

    def read(counts: Mapping[str, Mapping[str, int]]) -> dict[Stage, StageCounts]:
        oldest = told["oldest_by_stage_s"]
        return {stage: StageCounts({**none, **counts.get(stage, {})}, oldest.get(stage, 0.0)) for stage in Stage}

    return PipelineStatus(read(told["stages"]), read(told["rows"]))


async def _watch_status(look: Callable[[], Awaitable[PipelineStatus]], every: timedelta, *, as_json: bool) -> None:
    """Print every refresh; in a terminal, in place."""
    screen, speeds = create_console(), Speeds()
    in_place = Live(console=screen, auto_refresh=False) if screen.is_terminal and not as_json else None
    with in_place or nullcontext():
        async for status in poll_forever(look, every, print_notice):
            speed = speeds.after(status.turns, status.rows)
            if as_json:
                print_json(
                    {
                        "at": datetime.now(UTC).isoformat(),
                        **_serialise_status(status),
                        **_serialise_speeds({stage: speed[stage] for stage in status.stages}),
                    }
                )
            elif in_place:
                in_place.update(_render_status(status, speed), refresh=True)
            else:
                screen.print(_render_status(status, speed))


def _serialise_status(status: PipelineStatus) -> dict[str, Any]:
    return {
        "turns": status.accepted,
        "stages": {stage.value: dict(status.turns[stage].counts) for stage in status.stages},
        "rows": {stage.value: dict(status.rows[stage].counts) for stage in status.stages},
        "oldest_undone_s": round(status.oldest_undone_s, 3),
        "oldest_by_stage_s": {stage.value: round(status.rows[stage].oldest_undone_s, 3) for stage in status.stages},
        "dead": status.of("dead"),
        "undone": status.of("pending", "running"),
        **({} if status.memory_bytes is None else {"memory_pss_mb": round(status.memory_bytes / MIB, 1)}),
    }


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


def _serialise_speeds(speeds: Mapping[Stage, Speed]) -> dict[str, Any]:
    return {
        "per_s": {stage.value: round(speed.per_s, 2) for stage, speed in speeds.items()},
        "eta_s": {s.value: None if speed.eta_s is None else round(speed.eta_s, 1) for s, speed in speeds.items()},
    }


def _render_status(status: PipelineStatus, speeds: Mapping[Stage, Speed] | None = None) -> Group:
    numbers = (*PUBLIC_STATUSES, "oldest", *(("per s", "left") if speeds else ()))
    table = ResultTable("stage", *numbers, numbers=numbers)
    for stage in status.stages:
        counts, oldest = status.turns[stage].counts, status.rows[stage].oldest_undone_s
        shown = [Text(str(counts[name]), style="red" if name == "dead" and counts[name] else "") for name in counts]
        table.add_values(
            stage.value,
            *shown,
            format_seconds(oldest) if oldest else "",
            *(_format_speed(speeds[stage]) if speeds else ()),
        )
    undone = status.of("pending", "running")
    lag = (
        f"{undone} pieces of work undone, the oldest for {format_seconds(status.oldest_undone_s)}"
        if undone
        else "all done"
    )
    memory = "" if status.memory_bytes is None else f"; {status.memory_bytes / MIB:.0f} MiB of memory"
    return Group(Text(f"{status.accepted} turns; {lag}; {status.of('dead')} dead{memory}"), table)


def _format_speed(speed: Speed) -> tuple[str, str]:
    """Return a stage's speed and remaining time in words; '' when it has nothing to do."""
    left = "?" if speed.eta_s is None else format_seconds(speed.eta_s) if speed.eta_s else ""
    return f"{speed.per_s:.1f}" if speed.per_s else "", left
