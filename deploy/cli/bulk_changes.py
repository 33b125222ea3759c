"""Changing rows of the ledger from the command line: counted first, asked about, done in batches, noted."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from deploy.cli.existence import must_exist
from deploy.cli.ledger_rows import Place, rows_of
from deploy.cli.operator_command import Act, acted, on_database, operator, sure
from deploy.cli.output import answer, ended, say
from deploy.cli.running_stack import running_stack
from store.database import Database
from store.ledger.listing import Backlog, Entry, Selection
from store.ledger.quarantine import TOGETHER, Changed, Quarantine
from store.tenancy.call_audit import NOBODY

#: So many changed rows are worth a line of progress.
PROGRESS = 10_000


@dataclass(frozen=True, slots=True)
class Change:
    """A kind of change: the command it is noted as, what was done in a word, how, and why some may be left."""

    command: str
    done: str
    do: Callable[[Quarantine, Sequence[Entry]], Awaitable[Changed]]
    left: str


@dataclass(frozen=True, slots=True)
class Targets:
    """The rows that are meant: those of these turns, or with none named, all that the selection holds."""

    names: Sequence[str]
    place: Place
    selection: Selection

    async def count(self, database: Database) -> int:
        """Count them."""
        backlog = Backlog(database)
        if not self.names:
            return await backlog.count(self.selection)
        return len(await rows_of(backlog, self.place, self.names, self.selection))

    async def pages(self, database: Database) -> AsyncGenerator[list[Entry]]:
        """Yield them in batches."""
        backlog = Backlog(database)
        if self.names:
            yield await rows_of(backlog, self.place, self.names, self.selection)
            return
        async for page in backlog.pages(self.selection, TOGETHER):
            yield page


def change(data: Path | None, targets: Targets, change: Change, *, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Change the rows, and say how many were; ends with status 1 when some were left as they are."""
    stack = running_stack(data)
    must_exist(stack, targets.place.host, targets.place.bank)
    selected = on_database(stack, targets.count)
    if targets.names and not selected:
        raise ended("there is no such row in a status that this can change", 1)
    if dry_run:
        _tell(change, Changed(selected, 0), dry_run=True, as_json=as_json)
        return
    if selected > 1 and not yes:
        sure(f"{selected} rows would be {change.done}.", "--yes, or look with --dry-run first")

    async def work(database: Database, act: Act) -> Changed:
        quarantine, changed = Quarantine(database, operator()), Changed()
        async for page in targets.pages(database):
            changed += await change.do(quarantine, page)
            act.rows = changed.changed
            if changed.seen % PROGRESS < len(page) <= changed.seen - len(page):
                say(f"{changed.changed} of {selected} {change.done}")
        return changed

    changed = acted(stack, change.command, targets.place.host_id or NOBODY, work)
    _tell(change, changed, dry_run=False, as_json=as_json)
    if changed.refused:
        raise typer.Exit(1)


def _tell(change: Change, changed: Changed, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        counts = {"selected": changed.seen, change.done: changed.changed}
        answer({"dry_run": dry_run, **counts, "left": 0 if dry_run else changed.refused})
    elif dry_run:
        print(f"{changed.seen} rows would be {change.done}")
    else:
        print(f"{changed.changed} rows {change.done}")
    if changed.refused and not dry_run:
        say(f"{changed.refused} rows were left as they are: {change.left}")
