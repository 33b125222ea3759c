"""Bulk changes of ledger rows from the command line: count, confirm, change in batches, record in the audit."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import typer

from deploy.cli.existence import require_existing
from deploy.cli.ledger_rows import BankFilter, read_rows
from deploy.cli.operator_api import OperatorApi, find_operator_api
from deploy.cli.operator_command import AuditedAct, confirm_change, read_operator_name, run_audited, run_on_database
from deploy.cli.operator_jobs import Row, change_jobs, read_jobs, read_named_jobs
from deploy.cli.output import exit_with, print_json
from deploy.cli.running_stack import find_running_stack
from deploy.local.stack import Stack
from deploy.notices import print_notice
from store.database import Database
from store.ledger.listing import Backlog, LedgerEntry, Selection
from store.ledger.quarantine import TOGETHER, ChangeCount, Quarantine
from store.tenancy.call_audit import NO_HOST

#: Rows between two lines of progress.
PROGRESS_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class BulkChange:
    """A kind of change: its name in the audit, the word for it (`done`), the function, and why rows may be refused.

    `body` is the request body for the same change over the operator's interface.
    """

    command: str
    done: str
    do: Callable[[Quarantine, Sequence[LedgerEntry]], Awaitable[ChangeCount]]
    left: str
    body: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SelectedRows:
    """The rows to change: those of the named turns, or without names all rows of the selection."""

    names: Sequence[str]
    place: BankFilter
    selection: Selection

    async def count(self, database: Database) -> int:
        """Return the number of rows."""
        backlog = Backlog(database)
        if not self.names:
            return await backlog.count(self.selection)
        return len(await read_rows(backlog, self.place, self.names, self.selection))

    async def pages(self, database: Database) -> AsyncGenerator[list[LedgerEntry]]:
        """Yield the rows in batches."""
        backlog = Backlog(database)
        if self.names:
            yield await read_rows(backlog, self.place, self.names, self.selection)
            return
        async for page in backlog.pages(self.selection, TOGETHER):
            yield page


@dataclass(frozen=True, slots=True)
class _OnDatabase:
    """Counts and changes the rows in a stack's database."""

    stack: Stack
    targets: SelectedRows
    change: BulkChange

    def count(self) -> int:
        require_existing(self.stack, self.targets.place.host, self.targets.place.bank)
        return run_on_database(self.stack, self.targets.count)

    def apply(self, selected: int) -> ChangeCount:
        async def work(database: Database, act: AuditedAct) -> ChangeCount:
            quarantine, changed = Quarantine(database, read_operator_name()), ChangeCount()
            async for page in self.targets.pages(database):
                changed += await self.change.do(quarantine, page)
                act.rows = changed.changed
                if changed.seen % PROGRESS_ROWS < len(page) <= changed.seen - len(page):
                    print_notice(f"{changed.changed} of {selected} {self.change.done}")
            return changed

        return run_audited(self.stack, self.change.command, self.targets.place.host_id or NO_HOST, work)


@dataclass(frozen=True)
class _OverApi:
    """Counts and changes the rows over the operator's interface; the service records each call in its audit."""

    api: OperatorApi
    targets: SelectedRows
    change: BulkChange

    @cached_property
    def rows(self) -> Sequence[Row]:
        if self.targets.names:
            return read_named_jobs(self.api, self.targets.place, self.targets.names, self.targets.selection)
        return read_jobs(self.api, self.targets.place, self.targets.selection)[0]

    def count(self) -> int:
        return len(self.rows)

    def apply(self, selected: int) -> ChangeCount:
        del selected
        return change_jobs(self.api, self.rows, self.change.body)


def change_rows(
    data: Path | None, targets: SelectedRows, change: BulkChange, *, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Change the rows after a confirmation, and print how many were changed; exits 1 when some were refused."""
    stack = find_running_stack(data)
    api = find_operator_api(stack)
    way = _OnDatabase(stack, targets, change) if api is None else _OverApi(api, targets, change)
    selected = way.count()
    if targets.names and not selected:
        raise exit_with("there is no such row in a status that this can change", 1)
    if dry_run:
        _print_counts(change, ChangeCount(selected, 0), dry_run=True, as_json=as_json)
        return
    if selected > 1 and not yes:
        confirm_change(f"{selected} rows would be {change.done}.", "--yes, or look with --dry-run first")

    changed = way.apply(selected)
    _print_counts(change, changed, dry_run=False, as_json=as_json)
    if changed.refused:
        raise typer.Exit(1)


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
