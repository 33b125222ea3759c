"""Ledger rows over the operators' API: selected, listed, counted, and changed many at a time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import Any

import typer
from afterturn_client.contract.operators import Job, JobHistory, JobPage
from rich.text import Text

from deploy.cli.ledger_rows import BankFilter, build_notes_table, build_rows_table
from deploy.cli.operator_api import OperatorApi, read_answer
from deploy.cli.operator_command import confirm_change
from deploy.cli.output import create_console, exit_with, print_json
from deploy.notices import print_notice
from store.ledger.listing import OPEN_STATUSES
from store.ledger.quarantine import TOGETHER, ChangeCount
from store.ledger.stages import Stage

#: Rows of one page.
PAGE = 1000


@dataclass(frozen=True, slots=True)
class JobSelection:
    """A filter of ledger rows: by stages and statuses (none: all), or by the `states` of deliveries."""

    place: BankFilter
    stages: Sequence[Stage] = ()
    statuses: Sequence[str] = ()
    states: Sequence[str] = ()
    category: str | None = None
    older_than: timedelta | None = None

    def queries(self, api: OperatorApi) -> Iterator[dict[str, Any]]:
        """Yield API queries, which together select the rows; exits 2 for an unknown tenant."""
        where = {
            "tenant": api.tenant_name(self.place.tenant),
            "bank": self.place.bank,
            "category": self.category,
            "older_than_s": None if self.older_than is None else self.older_than.total_seconds(),
        }
        if self.states:
            yield from ({**where, "stage": Stage.GATEWAY.value, "state": state} for state in self.states)
            return
        statuses: Sequence[str | None] = self.statuses if 0 < len(self.statuses) < len(OPEN_STATUSES) else [None]
        stages: Sequence[str | None] = [stage.value for stage in self.stages] or [None]
        yield from ({**where, "stage": stage, "status": status} for stage in stages for status in statuses)

    def allows(self, job: Job) -> bool:
        """Return whether a row has one of the stages, and one of the statuses or states."""
        states = job.state in self.states if self.states else not self.statuses or job.status in self.statuses
        return states and (not self.stages or job.stage in self.stages)


@dataclass(frozen=True, slots=True)
class BulkChange:
    """A kind of change: the word for it (`done`), its request body, and why rows may be refused (`left`)."""

    done: str
    left: str
    body: Mapping[str, str]


def print_jobs(api: OperatorApi, selection: JobSelection, limit: int, *, as_json: bool) -> None:
    """Print the rows of a selection, the oldest first."""
    found, more = list[dict[str, Any]](), False
    for asked in selection.queries(api):
        rows, rest = _read_up_to(api, asked, limit)
        found, more = [*found, *rows], more or rest
    found.sort(key=lambda row: (row["accepted_at"], row["position"]))
    more = more or len(found) > limit
    page = {"jobs": found[:limit], "cursor": None, "has_more": more}
    if as_json:
        print_json({"jobs": page["jobs"], "has_more": more})
        return
    if found:
        create_console().print(build_rows_table(read_answer(JobPage, page).jobs))
    else:
        print_notice("nothing of the kind waits, runs or failed")
    if more:
        print_notice(f"there is more: --limit shows more than {limit}")


def print_turn_history(api: OperatorApi, turn: str, place: BankFilter, *, as_json: bool) -> None:
    """Print one turn's history; exits 1 when the ledger does not have it, 2 when its tenant does not exist."""
    told = _read_turn(api, turn, place)
    if as_json:
        print_json(told)
        return
    history = read_answer(JobHistory, told)
    create_console().print(build_rows_table(history.jobs))
    if history.history:
        create_console().print(Text(""), build_notes_table(history.history), sep="\n")


def count_jobs(api: OperatorApi, selection: JobSelection) -> dict[str, int]:
    """Count the rows of a selection by status."""
    counts = dict.fromkeys(OPEN_STATUSES, 0)
    for asked in selection.queries(api):
        found = api.call("GET", "/jobs/count", **asked)
        for status in counts:
            counts[status] += found[status]
    return counts


def change_rows(
    api: OperatorApi,
    turns: Sequence[str],
    selection: JobSelection,
    change: BulkChange,
    *,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Change the rows of these turns (none: of the selection) after a confirmation, and print how many were changed.

    Of a selection, the rows that were counted are changed: one that fails later is left out. Exits 1 when some were
    refused.
    """
    named = _read_named_jobs(api, turns, selection) if turns else []
    counted = [] if turns else _count_each(api, selection)
    selected = len(named) + sum(one.rows for one in counted)
    if turns and not selected:
        raise exit_with("there is no such row in a status that this can change", 1)
    if dry_run:
        _print_counts(change, ChangeCount(selected, 0), dry_run=True, as_json=as_json)
        return
    if selected > 1 and not yes:
        confirm_change(f"{selected} rows would be {change.done}.", "--yes, or look with --dry-run first")
    changed = _change_page(api, named, change)
    for one in counted:
        for told in _change_counted(api, one, change):
            changed += told
            if changed.seen < selected:
                print_notice(f"{changed.changed} of {selected} {change.done}")
    _print_counts(change, changed, dry_run=False, as_json=as_json)
    if changed.refused:
        raise typer.Exit(1)


def _read_up_to(api: OperatorApi, asked: Mapping[str, Any], limit: int) -> tuple[list[dict[str, Any]], bool]:
    """Return at most `limit` rows of a query, and whether there are more."""
    found, cursor, more = list[dict[str, Any]](), None, True
    while more and len(found) < limit:
        most = min(PAGE, limit - len(found))
        page = api.call("GET", "/jobs", **asked, limit=most, cursor=cursor, names=True)
        found += page["jobs"]
        cursor, more = page.get("cursor"), page["has_more"]
    return found, more


def _read_turn(api: OperatorApi, turn: str, place: BankFilter) -> Any:
    return api.call("GET", f"/jobs/{place.item(turn)}", tenant=api.tenant_name(place.tenant), names=True)


def _read_named_jobs(api: OperatorApi, turns: Sequence[str], selection: JobSelection) -> list[Job]:
    """Return the rows of these turns, or single rows, within a selection; exits 1 when one is unknown."""
    found = dict[tuple[object, str], Job]()
    for turn in turns:
        item = selection.place.item(turn)
        for job in read_answer(JobHistory, _read_turn(api, turn, selection.place)).jobs:
            if item in {job.id, job.turn_id} and selection.allows(job):
                found[job.id, job.stage] = job
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _Counted:
    """A query, the number of its rows, and when they were counted."""

    asked: Mapping[str, Any]
    rows: int
    at: str


def _count_each(api: OperatorApi, selection: JobSelection) -> list[_Counted]:
    """Count the rows of each query of a selection."""
    found = []
    for asked in selection.queries(api):
        told = api.call("GET", "/jobs/count", **asked)
        found.append(_Counted(asked, sum(told[status] for status in OPEN_STATUSES), told["counted_at"]))
    return found


def _change_counted(api: OperatorApi, counted: _Counted, change: BulkChange) -> Iterator[ChangeCount]:
    """Change the rows that were counted; the service works at it for some seconds a call, and each is yielded."""
    where = {name: value for name, value in counted.asked.items() if value is not None}
    body = {**change.body, "where": where, "counted_at": counted.at}
    cursor, more = None, bool(counted.rows)
    while more:
        told = api.call("POST", "/jobs/matching", body if cursor is None else {**body, "cursor": cursor})
        yield ChangeCount(told["changed"] + told["left"], told["changed"])
        cursor = told["cursor"]
        more = cursor is not None


def _change_page(api: OperatorApi, jobs: Sequence[Job], change: BulkChange) -> ChangeCount:
    """Change rows, a batch of one tenant and stage at a time."""

    def belong(job: Job) -> tuple[str, str]:
        return job.tenant, job.stage

    changed = 0
    for (tenant, stage), group in groupby(sorted(jobs, key=belong), key=belong):
        ids = [str(job.id) for job in group]
        for at in range(0, len(ids), TOGETHER):
            body = {**change.body, "tenant": tenant, "stage": stage, "ids": ids[at : at + TOGETHER]}
            changed += api.call("POST", "/jobs", body)["changed"]
    return ChangeCount(len(jobs), changed)


def _print_counts(change: BulkChange, changed: ChangeCount, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        counts = {"selected": changed.seen, change.done: changed.changed}
        print_json({"dry_run": dry_run, **counts, "left": 0 if dry_run else changed.refused})
    elif dry_run:
        print(f"{changed.seen} rows would be {change.done}")
    else:
        print(f"{changed.changed} rows {change.done}")
    if changed.refused and not dry_run:
        print_notice(f"{changed.refused} rows were left as they are: {change.left}")
