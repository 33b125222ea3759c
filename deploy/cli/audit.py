"""`afterturn audit`: who called which door, for what, how long it took and how it ended."""

from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.table import Table
from rich.text import Text

from deploy.cli.durations import duration
from deploy.cli.existence import host_named, must_exist
from deploy.cli.ledger_rows import HostOption, LimitOption
from deploy.cli.operator_command import on_database
from deploy.cli.output import answer, console, printable, say
from deploy.cli.running_stack import DataOption, JsonOption, running_stack
from store.database import Database
from store.tenancy.call_audit import FIRST_REFUSAL, CallAudit, Door, Recorded, Sought

audit_app = typer.Typer(
    help="Read the call audit: every call at a door and every operator's command. It holds no content.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@audit_app.callback()
def _group() -> None:
    """Keep `list` a command of its own."""


@audit_app.command("list")
def list_command(
    *,
    door: Annotated[Door | None, typer.Option(help="At this door alone.")] = None,
    host: HostOption = None,
    key: Annotated[UUID | None, typer.Option(metavar="KEY_ID", help="By this key, from `afterturn keys list`.")] = None,
    operation: Annotated[
        str | None, typer.Option(metavar="TEXT", help="For this: `POST /api/v1/turns`, `jobs retry`.")
    ] = None,
    refused: Annotated[bool, typer.Option("--refused", help="Only what was refused or failed.")] = False,
    since: Annotated[
        timedelta | None, typer.Option(parser=duration, metavar="LENGTH", help="Not longer ago than this: 10m, 2h.")
    ] = None,
    limit: LimitOption = 50,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List calls, the newest first. They are written in batches: the last second may still be missing.

    **Example:** `afterturn audit list --door operator --since 7d`
    """
    sought = Sought(host_named(host) if host else None, key, door, operation, refused, since)

    async def read(database: Database) -> tuple[list[Recorded], bool]:
        return await CallAudit(database).read(sought, limit)

    stack = running_stack(data)
    found, more = on_database(stack, read)
    if not found:  # calls outlive their host
        must_exist(stack, host, None)
    if as_json:
        answer({"calls": [_as_json(one) for one in found], "has_more": more})
        return
    if found:
        console().print(_table(found))
    else:
        say("there are no such calls")
    if more:
        say(f"there is more: --limit shows more than {limit}")


def _as_json(one: Recorded) -> dict[str, Any]:
    call = one.call
    return {
        "at": call.at.isoformat(),
        "door": call.door.value,
        "host": one.host,
        "key_id": call.key_id and str(call.key_id),
        "key_label": one.key_label,
        "actor": call.actor,
        "operation": call.operation,
        "status": call.status,
        "code": call.code,
        "took_ms": round(call.took_ms, 2),
        "rows": call.rows,
        "request_id": call.request_id and call.request_id.hex,
    }


def _table(found: list[Recorded]) -> Table:
    table = Table("when", "door", "who", "host", "operation", "result", box=None, pad_edge=False, header_style="bold")
    table.add_column("ms", justify="right")
    for one in found:
        call = one.call
        shown = [f"{call.at:%Y-%m-%d %H:%M:%S}", call.door.value, _who(one), one.host or "-", call.operation]
        style = "red" if call.code or (call.status or 0) >= FIRST_REFUSAL else ""
        table.add_row(*map(printable, shown), Text(_result(one), style=style), f"{call.took_ms:.1f}")
    return table


def _who(one: Recorded) -> str:
    call = one.call
    return call.actor or (f"{one.key_label or 'key'} {call.key_id}" if call.key_id else "nobody known")


def _result(one: Recorded) -> str:
    rows = "" if one.call.rows is None else f"{one.call.rows} rows"
    status = "" if one.call.status is None else str(one.call.status)
    return " ".join(part for part in (status, one.call.code, rows) if part) or "done"
