"""`afterturn status`: number of turns, and the progress of each stage with the estimated time until it is done."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any, TypeVar

import psutil
import typer
from afterturn_client.contract.operators import PipelineStatus
from rich.console import Group
from rich.live import Live
from rich.text import Text
from sqlalchemy.exc import SQLAlchemyError

from deploy.cli.ledger_rows import format_seconds
from deploy.cli.operator_api import OperatorApi, read_answer
from deploy.cli.options import DataOption, JsonOption
from deploy.cli.output import as_api_json, create_console, print_json
from deploy.cli.running_stack import find_running_stack
from deploy.cli.times import parse_duration
from deploy.local.stack import Stack
from deploy.notices import Say, print_notice
from deploy.tables import ResultTable
from store.errors import ResourceBusy
from store.ledger.ledger import PUBLIC_STATUSES

T = TypeVar("T")

#: Period over which the speed is averaged, in seconds.
WINDOW_S = 20.0
#: Largest share of the time that counting may take; with many rows it takes long.
SMOOTHING_SHARE = 0.2

ENDED = tuple(status for status in PUBLIC_STATUSES if status not in {"pending", "running"})


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of a stage: turns per second, and seconds until it is done (None: unknown)."""

    per_s: float
    eta_s: float | None


class Speeds:
    """Computes speeds from successive counts; `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, dict[str, int]]] = deque()

    def after(self, turns: Mapping[str, Mapping[str, int]], rows: Mapping[str, Mapping[str, int]]) -> dict[str, Speed]:
        """Return the speed of every stage; `turns` counts ended turns by stage and status, `rows` undone ones."""
        now = self._clock()
        ended = {stage: sum(counts[status] for status in ENDED) for stage, counts in turns.items()}
        self._seen.append((now, ended))
        while len(self._seen) > 2 and self._seen[1][0] <= now - WINDOW_S:  # noqa: PLR2004 - a speed needs two looks
            self._seen.popleft()
        then, before = self._seen[0]
        passed = now - then
        speeds = {}
        for stage, done in ended.items():
            undone = rows[stage]["pending"] + rows[stage]["running"]
            gained = max(0, done - before.get(stage, 0))
            speeds[stage] = _estimate_speed(gained / passed if passed else 0.0, undone)
        return speeds


async def poll_forever(look: Callable[[], Awaitable[T]], every: timedelta, say: Say) -> AsyncGenerator[T]:
    """Yield the counts forever; report once while the service or its database does not answer, and keep polling."""
    away = False
    while True:
        began = time.monotonic()
        try:
            seen = await look()
        except (SQLAlchemyError, OSError, ResourceBusy) as error:
            if not away:
                say(f"the stack does not answer ({type(error).__name__}); retrying")
            away = True
        else:
            away = False
            yield seen
        took = time.monotonic() - began
        await asyncio.sleep(max(every.total_seconds() - took, took / SMOOTHING_SHARE - took))


def _estimate_speed(per_s: float, undone: int) -> Speed:
    if not undone:
        return Speed(per_s, 0.0)
    return Speed(per_s, undone / per_s if per_s else None)


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
