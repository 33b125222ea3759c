"""`afterturn audit`: which key called which interface and operation, how long it took and how it ended."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated
from uuid import UUID

import typer
from afterturn_client.contract.operators import Call, CallList
from rich.text import Text

from deploy.cli.existence import find_host_id
from deploy.cli.ledger_rows import HostOption
from deploy.cli.operator_api import OperatorApi, read_answer
from deploy.cli.options import DataOption, JsonOption, create_group
from deploy.cli.output import create_console, print_json
from deploy.cli.running_stack import find_running_stack
from deploy.cli.times import parse_duration
from deploy.notices import print_notice
from deploy.tables import ResultTable
from store.tenancy.call_audit import FIRST_REFUSAL, Interface

audit_app = create_group()


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
        typer.Option(metavar="TEXT", help="Show calls of this operation only: `POST /api/v1/turns`, `gateway set`."),
    ] = None,
    refused: Annotated[bool, typer.Option("--refused", help="Show refused and failed calls only.")] = False,
    since: Annotated[
        timedelta | None,
        typer.Option(parser=parse_duration, metavar="LENGTH", help="Show calls newer than this age: 10m, 2h."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of rows.")] = 50,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List calls, the newest first. They are written in batches: the last second may still be missing.

    **Example:** `afterturn audit list --door operator --since 7d`
    """
    api = OperatorApi(find_running_stack(data))
    answer = api.call(
        "GET",
        "/audit",
        tenant=api.tenant_name(host),
        door=door and door.value,
        key_id=key and str(key),
        operation=operation,
        refused=refused or None,
        since_s=since and since.total_seconds(),
        limit=limit,
    )
    found = read_answer(CallList, answer)
    if host and not found.calls:  # the audit outlives a deleted tenant
        api.require_tenant(host, find_host_id(host))
    if as_json:
        print_json(answer)
        return
    if found.calls:
        create_console().print(_build_table(found.calls))
    else:
        print_notice("there are no such calls")
    if found.has_more:
        print_notice(f"there is more: --limit shows more than {limit}")


def _build_table(calls: Sequence[Call]) -> ResultTable:
    table = ResultTable("when", "door", "who", "tenant", "operation", "result", "ms", numbers=["ms"])
    for call in calls:
        style = "red" if call.code or (call.status or 0) >= FIRST_REFUSAL else ""
        table.add_values(
            f"{call.at:%Y-%m-%d %H:%M:%S}",
            call.door,
            call.actor or (f"{call.key_label or 'key'} {call.key_id}" if call.key_id else "unknown caller"),
            call.tenant or "-",
            call.operation,
            Text(_describe_result(call), style=style),
            f"{call.took_ms:.1f}",
        )
    return table


def _describe_result(call: Call) -> str:
    rows = "" if call.rows is None else f"{call.rows} rows"
    status = "" if call.status is None else str(call.status)
    return " ".join(part for part in (status, call.code, rows) if part) or "done"
