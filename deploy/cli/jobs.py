"""`afterturn jobs`: list, requeue or drop work of the stages, and wait until it is done."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

import typer

from deploy.cli.entry_point import INTERRUPTED
from deploy.cli.ledger_rows import (
    BankFilter,
    BankOption,
    CategoryOption,
    HostOption,
    LimitOption,
    OlderOption,
    TurnArgument,
    YesOption,
)
from deploy.cli.operator_api import OperatorApi
from deploy.cli.operator_jobs import BulkChange, JobSelection, change_rows, count_jobs, print_jobs, print_turn_history
from deploy.cli.options import DataOption, JsonOption, create_group
from deploy.cli.output import print_json
from deploy.cli.running_stack import find_running_stack
from deploy.cli.times import parse_duration
from deploy.notices import Say, print_notice, replace_unprintable
from store.ledger.quarantine import REASON_LENGTH
from store.ledger.stages import Stage


class Status(StrEnum):
    """The statuses of undone work."""

    PENDING = "pending"
    RUNNING = "running"
    UNKNOWN = "unknown"
    DEAD = "dead"


#: Shortest pause of `jobs drain` between two counts, in seconds.
POLL_INTERVAL_S = 0.5
#: Largest share of the time that counting may take.
COUNTING_SHARE = 0.1
#: Between two lines of progress, in seconds.
REPORT_INTERVAL_S = 5.0
#: Counts rows by status.
CountRows = Callable[[], Awaitable[Mapping[str, int]]]

StageOption = Annotated[list[Stage] | None, typer.Option("--stage", help="Filter by stage (repeatable).")]
StatusOption = Annotated[list[Status] | None, typer.Option("--status", help="Filter by status (repeatable).")]
TurnsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="TURN", help="Turns or single rows: ids, or SESSION/TURN together with --bank."),
]
AllOption = Annotated[
    bool, typer.Option("--all", help="Select every quarantined row; required when no other filter is given.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Count matching rows; change nothing.")]

jobs_app = create_group()


@jobs_app.command("list")
def list_command(
    *,
    stage: StageOption = None,
    status: StatusOption = None,
    host: HostOption = None,
    bank: BankOption = None,
    category: CategoryOption = None,
    older_than: OlderOption = None,
    limit: LimitOption = 50,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List pending, running, dead and unknown work, the oldest first.

    **Example:** `afterturn jobs list --stage extraction --status dead --older-than 10m`
    """
    selection = JobSelection(
        BankFilter(host, bank), stage or (), status or (), category=category, older_than=older_than
    )
    print_jobs(OperatorApi(find_running_stack(data)), selection, limit, as_json=as_json)


@jobs_app.command("show")
def show_command(
    turn: TurnArgument,
    *,
    host: HostOption = None,
    bank: BankOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a turn's work in every stage, its follow-ups and its recorded attempts.

    **Example:** `afterturn jobs show monday/7 --bank support`
    """
    print_turn_history(OperatorApi(find_running_stack(data)), turn, BankFilter(host, bank), as_json=as_json)


@jobs_app.command("retry")
def retry_command(
    turn: TurnsArgument = None,
    *,
    everything: AllOption = False,
    stage: StageOption = None,
    host: HostOption = None,
    bank: BankOption = None,
    category: CategoryOption = None,
    older_than: OlderOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Requeue dead work with a fresh attempt budget.

    A gateway delivery is requeued only if it certainly had no effect; settle an unknown outcome with
    `afterturn gateway resolve`. Exits 1 when a row was left unchanged.

    **Example:** `afterturn jobs retry --stage embedding --category embedding --yes`
    """
    # Named rows are looked up in every status, so that an unknown name is an error.
    statuses = [Status.DEAD, Status.UNKNOWN] if turn else [Status.DEAD]
    place = BankFilter(host, bank)
    selection = JobSelection(place, stage or (), statuses, category=category, older_than=older_than)
    _require_filter(turn, stage, host, bank, category, older_than, everything or None)
    left = "the gateway may have them already; look there, then run `afterturn gateway resolve TURN --as …`"
    again, api = BulkChange("retried", left, {"action": "retry"}), OperatorApi(find_running_stack(data))
    change_rows(api, turn or (), selection, again, yes=yes, dry_run=dry_run, as_json=as_json)


@jobs_app.command("drop")
def drop_command(
    turn: TurnsArgument = None,
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason, stored with the row.")],
    everything: AllOption = False,
    stage: StageOption = None,
    status: StatusOption = None,
    host: HostOption = None,
    bank: BankOption = None,
    category: CategoryOption = None,
    older_than: OlderOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Mark work as skipped, with a reason: by default dead and unknown rows, or those of the named turns.

    With `--status pending` or `running` undone rows too; a worker that is processing one loses its lease. A gateway
    call in flight completes. The turns themselves stay; only the stage's work on them is skipped.

    **Example:** `afterturn jobs drop --stage gateway --status unknown --reason "gateway was wiped" --yes`
    """
    wanted = status or (list(Status) if turn else [Status.DEAD, Status.UNKNOWN])
    place = BankFilter(host, bank)
    selection = JobSelection(place, stage or (), wanted, category=category, older_than=older_than)
    _require_filter(turn, stage, status, host, bank, category, older_than, everything or None)
    why = replace_unprintable(reason).strip()[:REASON_LENGTH]
    if not why:
        raise typer.BadParameter("a reason is needed", param_hint="--reason")
    left = "they changed meanwhile, or a worker is delivering them; see `afterturn jobs list`"
    end = BulkChange("dropped", left, {"action": "drop", "reason": why})
    api = OperatorApi(find_running_stack(data))
    change_rows(api, turn or (), selection, end, yes=yes, dry_run=dry_run, as_json=as_json)


@dataclass(frozen=True, slots=True)
class DrainState:
    """The last count: rows undone, dead and unknown; `waited_s` is the time since the first count, in seconds."""

    undone: int
    dead: int
    unknown: int
    waited_s: float

    @property
    def done(self) -> bool:
        """Whether nothing was undone."""
        return not self.undone


async def wait_until_drained(
    count: CountRows,
    timeout_s: float,
    say: Say,
    seen: Callable[[DrainState], None],
) -> DrainState:
    """Count until nothing is undone or `timeout_s` is over, and return the last count.

    `seen` is called with every count, `say` with the first that is not zero, and with progress every REPORT_INTERVAL_S
    seconds.
    """
    begun = said = time.monotonic()
    before: DrainState | None = None
    while True:
        began = time.monotonic()
        counts = await count()
        undone = counts["pending"] + counts["running"]
        now = DrainState(undone, counts["dead"], counts["unknown"], time.monotonic() - begun)
        seen(now)
        if not now.done and (before is None or time.monotonic() - said >= REPORT_INTERVAL_S):
            say(_describe_progress(now, before))
            said, before = time.monotonic(), now
        if now.done or now.waited_s >= timeout_s:
            return now
        pause = max(POLL_INTERVAL_S, (time.monotonic() - began) / COUNTING_SHARE)
        await asyncio.sleep(min(pause, max(0.0, timeout_s - now.waited_s)))


def _describe_progress(now: DrainState, before: DrainState | None) -> str:
    line = f"{now.undone} pieces of work undone"
    if before and (passed := now.waited_s - before.waited_s) > 0:
        rate = (before.undone - now.undone) / passed
        line += f", {abs(rate):.1f} a second {'fewer' if rate >= 0 else 'more'}"
    return line + (f"; {now.dead} dead, {now.unknown} unknown" if now.dead or now.unknown else "")


@jobs_app.command("drain")
def drain_command(
    *,
    timeout: Annotated[
        timedelta, typer.Option(parser=parse_duration, metavar="LENGTH", help="Maximum time to wait: 30s, 5m.")
    ] = timedelta(minutes=10),
    stage: StageOption = None,
    host: HostOption = None,
    bank: BankOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Wait until no work is pending or running. Dead and unknown work is ignored.

    Exits 1 on time-out, and 130 when it is interrupted.

    **Example:** `afterturn jobs drain --timeout 5m && echo all done`
    """
    selection = JobSelection(BankFilter(host, bank), stage or ())
    api, last = OperatorApi(find_running_stack(data)), list[DrainState]()

    async def count() -> Mapping[str, int]:
        return await asyncio.to_thread(count_jobs, api, selection)

    status = 1
    try:
        asyncio.run(wait_until_drained(count, timeout.total_seconds(), print_notice, last.append))
    except KeyboardInterrupt:
        print_notice("interrupted")
        status = INTERRUPTED
    if not last:
        raise typer.Exit(status)
    _print_drained(last[-1], as_json=as_json)
    raise typer.Exit(0 if last[-1].done else status)


def _print_drained(drained: DrainState, *, as_json: bool) -> None:
    if as_json:
        waited = round(drained.waited_s, 3)
        counts = {"undone": drained.undone, "dead": drained.dead, "unknown": drained.unknown}
        print_json({"drained": drained.done, **counts, "waited_s": waited})
        return
    failed = f"; {drained.dead} dead, {drained.unknown} unknown" if drained.dead or drained.unknown else ""
    state = "nothing is undone" if drained.done else f"{drained.undone} pieces of work are undone"
    print(f"{state}, after {drained.waited_s:.1f} s{failed}")


def _require_filter(*said: object) -> None:
    """Exit 2 when neither turns, a filter nor --all select the rows."""
    if not any(one is not None and one != [] for one in said):
        raise typer.BadParameter("name a TURN, give a filter, or --all for the whole quarantine")
