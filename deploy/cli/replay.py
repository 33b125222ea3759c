"""`afterturn replay`: rebuild the projections from the log, compare them, and repair differences."""

import time
from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from deploy.cli.existence import find_host_id, require_existing
from deploy.cli.operator_command import AuditedAct, run_audited, run_on_database
from deploy.cli.options import DataOption, JsonOption
from deploy.cli.output import create_console, exit_with, print_json
from deploy.cli.running_stack import find_owner_url, find_running_stack
from deploy.components.bootstrap import HOST
from deploy.notices import print_notice
from deploy.tables import ResultTable
from store import identity
from store.database import Database
from store.errors import ReplayError
from store.replay import ReplayReport, ReplayScope, repair_scope, swap_tables, verify_log
from store.replay.report import Difference
from store.tenancy.call_audit import NO_HOST

#: Seconds between two lines about progress.
REPORT_INTERVAL_S = 2.0

HostOption = Annotated[str | None, typer.Option(metavar="NAME", help="Only this tenant (host), by name or id.")]
BankOption = Annotated[str | None, typer.Option(metavar="NAME", help="Only this bank of --host, by name.")]
VerifyOption = Annotated[bool, typer.Option("--verify", help="Compare only (the default).")]
SwapOption = Annotated[bool, typer.Option("--swap", help="Replace the live tables with the rebuilt ones.")]
RepairOption = Annotated[bool, typer.Option("--repair", help="Repair differing rows of --host or --bank in place.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Resume an interrupted replay.")]
TablesOption = Annotated[
    bool, typer.Option("--tables-only", help="Exit 0 when the tables are equal; derived state does not count.")
]
#: Accepted for scripts of before derived state decided the exit status by itself.
DerivedOption = Annotated[bool, typer.Option("--derived", hidden=True)]


def replay_command(
    *,
    verify_: VerifyOption = False,
    swap_: SwapOption = False,
    repair_: RepairOption = False,
    host: HostOption = None,
    bank: BankOption = None,
    resume: ResumeOption = False,
    tables_only: TablesOption = False,
    derived: DerivedOption = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rebuild the tables from the event log and compare them row for row; swap or repair them.

    Exits 1 when a table differs from the log or derived state from what it is derived from, and names the first
    differing rows by their keys, never by content. `--swap` or `--repair` repairs them and exits 0.

    Derived state outside the log (counts, words, vectors, names, validity of facts) is compared with what the pipeline
    computes from the rows it has processed. With `--tables-only` it is reported, and does not decide the exit status.

    **Example:** `afterturn replay --verify --json`
    """
    del derived
    mends = swap_ or repair_
    scope = _parse_scope(host, bank)
    if wrong := _find_option_conflict(verify_, swap_, repair_, scope, resume=resume):
        raise exit_with(wrong, 2)
    stack = find_running_stack(data)
    require_existing(stack, host, bank)
    url, progress = find_owner_url(stack), _create_progress_printer()

    async def compare(_database: Database) -> ReplayReport:
        return await verify_log(url, scope, progress=progress, resume=resume)

    async def mend(_database: Database, _act: AuditedAct) -> ReplayReport:
        if swap_:
            return await swap_tables(url, progress=progress, resume=resume)
        return await repair_scope(url, scope, progress=progress)

    try:
        if mends:
            report = run_audited(stack, f"replay {'--swap' if swap_ else '--repair'}", scope.host or NO_HOST, mend)
        else:
            report = run_on_database(stack, compare)
    except ReplayError as error:
        raise exit_with(str(error), 1) from None
    if as_json:
        print_json(report.as_json())
    else:
        create_console().print(_render_report(report))
    raise typer.Exit(0 if mends or _check_report(report, tables_only=tables_only) else 1)


def _find_option_conflict(verify_: bool, swap_: bool, repair_: bool, scope: ReplayScope, *, resume: bool) -> str | None:  # noqa: FBT001 - as asked
    """Return a message about options that exclude each other, or None."""
    if verify_ + swap_ + repair_ > 1:
        return "--verify, --swap and --repair exclude each other: give one of them"
    if swap_ and scope != ReplayScope():
        return "--swap replaces the tables of all tenants: leave out --host and --bank, or use --repair"
    if repair_ and (scope.host is None or resume):
        return "--repair needs a tenant (--host NAME), or --bank NAME, and cannot --resume"
    return None


def _check_report(report: ReplayReport, *, tables_only: bool) -> bool:
    strays = [one.name for one in report.derived if not one.equal]
    if strays:
        print_notice(f"not as derived: {', '.join(strays)}; --repair --host NAME makes it anew")
    return report.equal and (tables_only or not strays)


def _parse_scope(host: str | None, bank: str | None) -> ReplayScope:
    if host is None and bank is None:
        return ReplayScope()
    host_id = find_host_id(host or HOST)
    return ReplayScope(host_id, None if bank is None else identity.bank_id(host_id, bank))


def _create_progress_printer() -> Callable[[int, int], None]:
    """Return a function that prints the progress of a replay now and then."""
    next_at = time.monotonic() + REPORT_INTERVAL_S

    def tell(done: int, total: int) -> None:
        nonlocal next_at
        if time.monotonic() >= next_at:
            next_at = time.monotonic() + REPORT_INTERVAL_S
            print_notice(f"replayed {done} of {total} events")

    return tell


def _render_report(report: ReplayReport) -> Group:
    table = ResultTable("table", "live", "replayed", "", numbers=["live", "replayed"])
    for one in report.tables:
        verdict = Text("equal", style="green") if one.equal else Text("differs", style="red")
        table.add_values(one.table, str(one.rows_live), str(one.rows_replayed), verdict)
    named = [_render_difference(one.table, difference) for one in report.tables for difference in one.first_differences]
    beside = [
        line
        for one in report.derived
        for line in (
            Text(f"{one.name}: {'as derived' if one.equal else 'not as derived'}"),
            *(_render_difference(one.name, difference) for difference in one.first_differences),
        )
    ]
    head = Text(f"{report.events} events in {report.seconds:.1f} s: {'equal' if report.equal else 'not equal'}")
    return Group(head, table, *named, *beside)


def _render_difference(name: str, difference: Difference) -> Text:
    key = " ".join(f"{column}={value}" for column, value in difference.key.items())
    return Text(f"  {name} {key}: {difference.found} {', '.join(difference.columns)}")
