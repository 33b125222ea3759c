"""`afterturn audit`: which key called which interface and operation, how long it took and how it ended."""

from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.text import Text

from deploy.cli.existence import find_host_id, require_existing
from deploy.cli.ledger_rows import HostOption, LimitOption
from deploy.cli.operator_api import find_operator_api
from deploy.cli.operator_command import run_on_database
from deploy.cli.options import DataOption, JsonOption
from deploy.cli.output import create_console, print_json
from deploy.cli.output import print_rows as print_api_rows
from deploy.cli.running_stack import find_running_stack
from deploy.cli.times import parse_duration
from deploy.notices import print_notice
from deploy.tables import ResultTable
from store.database import Database
from store.tenancy.call_audit import FIRST_REFUSAL, CallAudit, CallFilter, Interface, Recorded

audit_app = typer.Typer(
    help="Show the call audit: API calls and operators' commands, without content.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@audit_app.callback()
def _keep_group() -> None:
    """Keep `list` a command of its own."""


@audit_app.command("list")
def list_command(
    *,
    door: Annotated[Interface | None, typer.Option(help="Show calls of this interface only.")] = None,
    host: HostOption = None,
    key: Annotated[
        UUID | None,
        typer.Option(metavar="KEY_ID", help="Show calls made with this key id (see `afterturn keys list`)."),
    ] = None,
    operation: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Show calls of this operation only: `POST /api/v1/turns`, `jobs retry`."),
    ] = None,
    refused: Annotated[bool, typer.Option("--refused", help="Show refused and failed calls only.")] = False,
    since: Annotated[
        timedelta | None,
        typer.Option(parser=parse_duration, metavar="LENGTH", help="Show calls newer than this age: 10m, 2h."),
    ] = None,
    limit: LimitOption = 50,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List calls, the newest first. They are written in batches: the last second may still be missing.

    **Example:** `afterturn audit list --door operator --since 7d`
    """
    call_filter = CallFilter(find_host_id(host) if host else None, key, door, operation, refused, since)

    async def read(database: Database) -> tuple[list[Recorded], bool]:
        return await CallAudit(database).read(call_filter, limit)

    stack = find_running_stack(data)
    if api := find_operator_api(stack):
        asked = {
            "tenant": host,
            "door": door and door.value,
            "key_id": key and str(key),
            "operation": operation,
            "refused": refused or None,
            "since_s": since and since.total_seconds(),
            "limit": limit,
        }
        print_api_rows(api.call("GET", "/audit", **asked), "calls", as_json=as_json)
        return
    found, more = run_on_database(stack, read)
    if not found:  # the audit outlives a deleted host
        require_existing(stack, host, None)
    if as_json:
        print_json({"calls": [_serialise_call(one) for one in found], "has_more": more})
        return
    if found:
        create_console().print(_build_table(found))
    else:
        print_notice("there are no such calls")
    if more:
        print_notice(f"there is more: --limit shows more than {limit}")


def _serialise_call(one: Recorded) -> dict[str, Any]:
    call = one.call
    return {
        "at": call.at.isoformat(),
        "door": call.door.value,
        "tenant": one.host,
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


def _build_table(found: list[Recorded]) -> ResultTable:
    table = ResultTable("when", "door", "who", "host", "operation", "result", "ms", numbers=["ms"])
    for one in found:
        call = one.call
        shown = [
            f"{call.at:%Y-%m-%d %H:%M:%S}",
            call.door.value,
            _describe_caller(one),
            one.host or "-",
            call.operation,
        ]
        style = "red" if call.code or (call.status or 0) >= FIRST_REFUSAL else ""
        table.add_values(*shown, Text(_describe_result(one), style=style), f"{call.took_ms:.1f}")
    return table


def _describe_caller(one: Recorded) -> str:
    call = one.call
    return call.actor or (f"{one.key_label or 'key'} {call.key_id}" if call.key_id else "unknown caller")


def _describe_result(one: Recorded) -> str:
    rows = "" if one.call.rows is None else f"{one.call.rows} rows"
    status = "" if one.call.status is None else str(one.call.status)
    return " ".join(part for part in (status, one.call.code, rows) if part) or "done"
