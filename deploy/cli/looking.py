"""Looking at the ledger from the command line: a list of rows, and the story of one turn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from rich.console import Group
from rich.table import Table
from rich.text import Text

from deploy.cli import entries
from deploy.cli.entries import Place
from deploy.cli.existing import must_exist
from deploy.cli.finding import running_stack
from deploy.cli.operating import on_database
from deploy.cli.printing import answer, console, ended, say
from store.backlog import Backlog, Entry, Noted, Selection
from store.database import Database


@dataclass(frozen=True, slots=True)
class Story:
    """All about one turn: its rows, what was noted, and the names of the banks."""

    rows: Sequence[Entry]
    notes: Sequence[Noted]
    banks: Mapping[UUID, str]


def look(data: Path | None, place: Place, selection: Selection, limit: int, *, as_json: bool) -> None:
    """Print the rows of a selection; ends with status 2 when there is no such place."""
    stack = running_stack(data)
    must_exist(stack, place.host, place.bank)

    async def read(database: Database) -> tuple[list[Entry], bool, dict[UUID, str]]:
        backlog = Backlog(database)
        rows, more = await backlog.rows(selection, limit)
        return rows, more, await backlog.bank_names(rows)

    rows, more, banks = on_database(stack, read)
    if as_json:
        answer({"jobs": [entries.as_json(row, banks) for row in rows], "has_more": more})
        return
    if rows:
        console().print(entries.table(rows, banks))
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
        return Story(rows, notes, await backlog.bank_names(rows))

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
        "jobs": [entries.as_json(row, story.banks) for row in story.rows],
        "history": [entries.noted_json(noted) for noted in story.notes],
    }


def _in_words(story: Story) -> Group:
    told: list[Text | Table] = [Text(""), entries.history(story.notes)] if story.notes else []
    return Group(entries.table(story.rows, story.banks), *told)
