"""Prints ledger rows: a list, and the history of one turn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from rich.console import Group
from rich.table import Table
from rich.text import Text

from deploy.cli import ledger_rows
from deploy.cli.existence import require_existing
from deploy.cli.ledger_rows import BankFilter
from deploy.cli.operator_api import find_operator_api
from deploy.cli.operator_command import run_on_database
from deploy.cli.operator_jobs import find_tenant, read_jobs
from deploy.cli.output import create_console, exit_with, print_json
from deploy.cli.output import print_rows as print_api_rows
from deploy.cli.running_stack import find_running_stack
from deploy.notices import print_notice
from store.database import Database
from store.ledger.listing import Backlog, LedgerEntry, Selection, TurnAuditRow
from store.tenancy.gateway_targets import Destination


@dataclass(frozen=True, slots=True)
class TurnHistory:
    """The rows of one turn: recorded attempts, bank names and delivery targets."""

    rows: Sequence[LedgerEntry]
    notes: Sequence[TurnAuditRow]
    banks: Mapping[UUID, str]
    deliveries: Mapping[UUID, Destination]


def print_rows(data: Path | None, place: BankFilter, selection: Selection, limit: int, *, as_json: bool) -> None:
    """Print the rows of a selection; exits 2 when the tenant or bank does not exist."""
    stack = find_running_stack(data)
    if api := find_operator_api(stack):
        listed, rest = read_jobs(api, place, selection, limit)
        print_api_rows({"jobs": listed, "has_more": rest}, "jobs", as_json=as_json)
        return
    require_existing(stack, place.host, place.bank)

    async def read(database: Database) -> tuple[TurnHistory, bool]:
        backlog = Backlog(database)
        rows, more = await backlog.rows(selection, limit)
        return TurnHistory(rows, (), await backlog.bank_names(rows), await backlog.deliveries(rows)), more

    found, more = run_on_database(stack, read)
    if as_json:
        print_json({"jobs": _rows_json(found), "has_more": more})
        return
    if found.rows:
        create_console().print(ledger_rows.build_rows_table(found.rows, found.banks, found.deliveries))
    else:
        print_notice("nothing of the kind waits, runs or failed")
    if more:
        print_notice(f"there is more: --limit shows more than {limit}")


def print_turn_history(data: Path | None, turn: str, place: BankFilter, *, as_json: bool) -> None:
    """Print one turn's history; exits 1 when the ledger does not have it, 2 when its tenant or bank does not exist."""
    item = place.item(turn)
    stack = find_running_stack(data)
    if api := find_operator_api(stack):
        told = api.call("GET", f"/jobs/{item}", tenant=find_tenant(api, place))
        print_api_rows(told, "jobs", as_json=as_json)
        if not as_json:
            print_api_rows(told, "history", as_json=False)
        return
    require_existing(stack, place.host, place.bank)

    async def read(database: Database) -> TurnHistory:
        backlog = Backlog(database)
        rows = await backlog.of_turn(item, place.host_id)
        notes = await backlog.history(rows[0].host_id, rows[0].turn_id) if rows else []
        return TurnHistory(rows, notes, await backlog.bank_names(rows), await backlog.deliveries(rows))

    story = run_on_database(stack, read)
    if not story.rows:
        raise exit_with("there is no such turn", 1)
    if as_json:
        print_json(_serialise_history(story))
    else:
        create_console().print(_render_history(story))


def _serialise_history(story: TurnHistory) -> dict[str, object]:
    first = story.rows[0]
    return {
        "turn_id": str(first.turn_id),
        "tenant": first.host,
        "bank": story.banks.get(first.bank_id),
        "jobs": _rows_json(story),
        "history": [ledger_rows.serialise_note(noted) for noted in story.notes],
    }


def _render_history(story: TurnHistory) -> Group:
    told: list[Text | Table] = [Text(""), ledger_rows.build_notes_table(story.notes)] if story.notes else []
    return Group(ledger_rows.build_rows_table(story.rows, story.banks, story.deliveries), *told)


def _rows_json(story: TurnHistory) -> list[dict[str, Any]]:
    return [ledger_rows.serialise_row(row, story.banks, story.deliveries) for row in story.rows]
