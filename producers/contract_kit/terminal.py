"""The report for a person: a table of all cases, what each failure did, expected and saw, and one line at the end."""

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from producers.contract_kit.registry import Case
from producers.contract_kit.report import CaseVerdict, ContractReport, Result, why_skipped

#: Deviations of one case that are shown; all are in --json and --junit.
SHOWN_DEVIATIONS = 3
_STYLES = {CaseVerdict.PASSED: "green", CaseVerdict.FAILED: "bold red", CaseVerdict.SKIPPED: "dim"}


def print_report(report: ContractReport, console: Console) -> None:
    """Print the report of a run."""
    claims = ", ".join(report.claimed) or "no capability"
    console.print(f"memory plugin at {report.url}, version {report.version or 'unknown'}, claims {claims}\n")
    console.print(_cases_table(report.results))
    for result in report.failed:
        _print_failure(result, console)
    if report.left_behind:
        console.print(f"\nleft behind, for they could not be deleted: {', '.join(report.left_behind)}")
    console.print()
    console.print(format_summary(report), style="bold red" if report.failed or report.stopped else "bold")


def format_summary(report: ContractReport) -> str:
    """Return the summary of a run in one line."""
    counts = ", ".join(f"{number} {name}" for name, number in report.counts().items() if number or name == "passed")
    ended = "interrupted: " if report.interrupted else f"stopped: {report.stopped}: " if report.stopped else ""
    why = why_skipped({need for one in report.results for need in one.missing})
    return f"{ended}{counts} in {report.seconds:.1f} s{f' (skipped: {why})' if why else ''}"


def print_cases(cases: Sequence[Case], console: Console) -> None:
    """Print the list of cases."""
    table = Table("case", "contract", "needs", "promise", box=None, pad_edge=False, header_style="bold")
    for one in cases:
        table.add_row(one.id, one.clause, ", ".join(one.needs), one.promise)
    console.print(table)


def _cases_table(results: Sequence[Result]) -> Table:
    table = Table("", "case", "contract", "what a plugin does", box=None, pad_edge=False, header_style="bold")
    for _, group in groupby(results, lambda one: one.case.group):
        for one in group:
            said = one.why_skipped or one.case.promise
            table.add_row(Text(one.verdict.value, _STYLES[one.verdict]), one.case.id, one.case.clause, said)
        table.add_section()
    return table


def _print_failure(result: Result, console: Console) -> None:
    console.print()
    console.print(Text.assemble(("failed ", "bold red"), (result.case.id, "bold"), f"  contract {result.case.clause}"))
    for one in result.findings[:SHOWN_DEVIATIONS]:
        grid = Table.grid(padding=(0, 2))
        for name, text in (("did", one.did), ("expected", one.expected), ("saw", one.saw)):
            grid.add_row(Text(name, "dim"), text)
        console.print(Padding(grid, (0, 0, 0, 2), expand=False))
    more = len(result.findings) - SHOWN_DEVIATIONS
    if more > 0:
        console.print(f"  and {more} more deviations of this kind (--json has them all)")
    console.print(Padding(Text.assemble(("to mend   ", "dim"), result.case.mend), (0, 0, 0, 2), expand=False))
