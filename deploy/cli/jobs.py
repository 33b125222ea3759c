"""`afterturn jobs`: what waits, runs, failed or is unknown; what to do about it; waiting until all is done."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

import typer

from deploy.cli.bulk_changes import Change, Targets, change
from deploy.cli.drain import Drained, drain
from deploy.cli.durations import duration
from deploy.cli.existence import must_exist
from deploy.cli.ledger_listing import look, tell
from deploy.cli.ledger_rows import (
    BankOption,
    CategoryOption,
    HostOption,
    LimitOption,
    OlderOption,
    Place,
    TurnArgument,
    YesOption,
)
from deploy.cli.operator_command import on_database
from deploy.cli.output import answer, printable, say
from deploy.cli.running_stack import DataOption, JsonOption, running_stack
from store.database import Database
from store.ledger.ledger import Stage
from store.ledger.listing import Backlog, Selection
from store.ledger.quarantine import REASON_LENGTH


class Status(StrEnum):
    """What can be asked for."""

    PENDING = "pending"
    RUNNING = "running"
    UNKNOWN = "unknown"
    DEAD = "dead"


StageOption = Annotated[list[Stage] | None, typer.Option("--stage", help="In this stage; may be repeated.")]
StatusOption = Annotated[list[Status] | None, typer.Option("--status", help="With this status; may be repeated.")]
TurnsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="TURN", help="Turns or single rows: ids, or SESSION/TURN with --bank.")
]
AllOption = Annotated[bool, typer.Option("--all", help="Every row in quarantine, when nothing else says which.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Count, and change nothing.")]

jobs_app = typer.Typer(
    help="What is still to be done, failed or is unknown: look, try again, drop, wait.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


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
    """List work that waits, runs, is dead or unknown, the oldest first. Done work is not listed.

    **Example:** `afterturn jobs list --stage extraction --status dead --older-than 10m`
    """
    place = Place(host, bank)
    selection = _selection(place, stage, status or list(Status), category, older_than)
    look(data, place, selection, limit, as_json=as_json)


@jobs_app.command("show")
def show_command(
    turn: TurnArgument,
    *,
    host: HostOption = None,
    bank: BankOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a turn's work in every stage, its follow-ups, and what was noted about it.

    **Example:** `afterturn jobs show monday/7 --bank support`
    """
    tell(data, turn, Place(host, bank), as_json=as_json)


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
    """Put dead work back to the start, with all its attempts.

    A delivery to a gateway is repeated only where the gateway certainly did nothing; what is unknown is left, and
    settled with `afterturn gateway resolve`. Ends with 1 when something was left.

    **Example:** `afterturn jobs retry --stage embedding --category embedding --yes`
    """
    place = Place(host, bank)
    # Named ones are asked for whatever they are, so that an unknown one is refused and not overlooked.
    statuses = [Status.DEAD, Status.UNKNOWN] if turn else [Status.DEAD]
    selection = _selection(place, stage, statuses, category, older_than)
    _some(turn, stage, host, bank, category, older_than, everything or None)
    left = "the gateway may have them already; find out, then say `afterturn gateway resolve TURN --as …`"
    again = Change("jobs retry", "retried", lambda by_hand, rows: by_hand.retry(rows), left)
    change(data, Targets(turn or (), place, selection), again, yes=yes, dry_run=dry_run, as_json=as_json)


@jobs_app.command("drop")
def drop_command(
    turn: TurnsArgument = None,
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; kept with the row.")],
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
    """End work as skipped, for a reason: that of these turns, or without any, what is dead or unknown.

    With `--status pending` or `running` also what is still to be done; whoever works on it finds it gone. A delivery
    under way is left to end by its own rules. Turns stay: only this stage's work on them ends.

    **Example:** `afterturn jobs drop --stage gateway --status unknown --reason "gateway was wiped" --yes`
    """
    place = Place(host, bank)
    wanted = status or (list(Status) if turn else [Status.DEAD, Status.UNKNOWN])
    selection = _selection(place, stage, wanted, category, older_than)
    _some(turn, stage, status, host, bank, category, older_than, everything or None)
    why = printable(reason).strip()[:REASON_LENGTH]
    if not why:
        raise typer.BadParameter("a reason is needed", param_hint="--reason")
    left = "they moved meanwhile, or their delivery is under way"
    end = Change("jobs drop", "dropped", lambda by_hand, rows: by_hand.drop(rows, why), left)
    change(data, Targets(turn or (), place, selection), end, yes=yes, dry_run=dry_run, as_json=as_json)


@jobs_app.command("drain")
def drain_command(
    *,
    timeout: Annotated[
        timedelta, typer.Option(parser=duration, metavar="LENGTH", help="How long to wait at most.")
    ] = timedelta(minutes=10),
    stage: StageOption = None,
    host: HostOption = None,
    bank: BankOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Wait until nothing is pending or running; what is dead or unknown is not waited for.

    Ends with 1 when the time is over, or when it is interrupted, before that.

    **Example:** `afterturn jobs drain --timeout 5m && echo all done`
    """
    selection = _selection(Place(host, bank), stage, [], None, None)
    stack = running_stack(data)
    must_exist(stack, host, bank)
    last: list[Drained] = []

    async def wait(database: Database) -> None:
        await drain(Backlog(database), selection, timeout.total_seconds(), say, last.append)

    try:
        on_database(stack, wait)
    except KeyboardInterrupt:
        say("interrupted")
    if not last:
        raise typer.Exit(1)
    _tell_drained(last[-1], as_json=as_json)
    raise typer.Exit(0 if last[-1].done else 1)


def _tell_drained(drained: Drained, *, as_json: bool) -> None:
    if as_json:
        waited = round(drained.waited_s, 3)
        counts = {"undone": drained.undone, "dead": drained.dead, "unknown": drained.unknown}
        answer({"drained": drained.done, **counts, "waited_s": waited})
        return
    failed = f"; {drained.dead} dead, {drained.unknown} unknown" if drained.dead or drained.unknown else ""
    state = "nothing is undone" if drained.done else f"{drained.undone} pieces of work are undone"
    print(f"{state}, after {drained.waited_s:.1f} s{failed}")


def _selection(
    place: Place,
    stages: list[Stage] | None,
    statuses: list[Status],
    category: str | None,
    older_than: timedelta | None,
) -> Selection:
    chosen = tuple(status.value for status in statuses)
    return Selection(
        stages=tuple(stages or Stage),
        statuses=chosen,
        host=place.host_id,
        bank=place.bank_id,
        category=category,
        older_than=older_than,
    )


def _some(*said: object) -> None:
    """Refuse to change everything there is unless that was said."""
    if not any(one is not None and one != [] for one in said):
        raise typer.BadParameter("say which: a TURN, a filter, or --all for the whole quarantine")
