"""Looking at the ledger from the command line: a list of rows, and the story of one turn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from rich.console import Group
from rich.table import Table
from rich.text import Text

from deploy.cli import ledger_rows
from deploy.cli.existence import must_exist
from deploy.cli.ledger_rows import Place
from deploy.cli.operator_command import on_database
from deploy.cli.output import answer, console, ended, say
from deploy.cli.running_stack import running_stack
from store.database import Database
from store.ledger.listing import Backlog, Entry, Noted, Selection
from store.tenancy.gateway_targets import Destination


@dataclass(frozen=True, slots=True)
class Story:
    """Rows of one turn or of a list: what was noted, the names of their banks, and where deliveries go to."""

    rows: Sequence[Entry]
    notes: Sequence[Noted]
    banks: Mapping[UUID, str]
    deliveries: Mapping[UUID, Destination]


def look(data: Path | None, place: Place, selection: Selection, limit: int, *, as_json: bool) -> None:
    """Print the rows of a selection; ends with status 2 when there is no such place."""
    stack = running_stack(data)
    must_exist(stack, place.host, place.bank)

    async def read(database: Database) -> tuple[Story, bool]:
        backlog = Backlog(database)
        rows, more = await backlog.rows(selection, limit)
        return Story(rows, (), await backlog.bank_names(rows), await backlog.deliveries(rows)), more

    found, more = on_database(stack, read)
    if as_json:
        answer({"jobs": _rows_json(found), "has_more": more})
        return
    if found.rows:
        console().print(ledger_rows.table(found.rows, found.banks, found.deliveries))
    else:
        say("nothing of the kind waits, runs or failed")
    if more:
        say(f"there is more: --limit shows more than {limit}")


def tell(data: Path | None, turn: str, place: Place, *, as_json: bool) -> None:
    """Print all about one turn; ends with status 1 when the ledger does not hold it, 2 when there is no such place."""
    item = place.item(turn)
    stack = running_stack(data)
    must_exist(stack, place.host, place.bank)

    async def read(database: Database) -> Story:
        backlog = Backlog(database)
        rows = await backlog.of_turn(item, place.host_id)
        notes = await backlog.history(rows[0].host_id, rows[0].turn_id) if rows else []
        return Story(rows, notes, await backlog.bank_names(rows), await backlog.deliveries(rows))

    story = on_database(stack, read)
    if not story.rows:
        raise ended("there is no such turn", 1)
    if as_json:
        answer(_as_json(story))
    else:
        console().print(_in_words(story))


def _as_json(story: Story) -> dict[str, object]:
    first = story.rows[0]
    return {
        "turn_id": str(first.turn_id),
        "host": first.host,
        "bank": story.banks.get(first.bank_id),
        "jobs": _rows_json(story),
        "history": [ledger_rows.noted_json(noted) for noted in story.notes],
    }


def _in_words(story: Story) -> Group:
    told: list[Text | Table] = [Text(""), ledger_rows.history(story.notes)] if story.notes else []
    return Group(ledger_rows.table(story.rows, story.banks, story.deliveries), *told)


def _rows_json(story: Story) -> list[dict[str, Any]]:
    return [ledger_rows.as_json(row, story.banks, story.deliveries) for row in story.rows]
