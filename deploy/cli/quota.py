"""`afterturn quota`: limits on the size and write rate of a tenant or bank."""

from dataclasses import asdict
from typing import Annotated, Any

import typer
from sqlalchemy.exc import IntegrityError

from deploy.cli import name_arguments
from deploy.cli.existence import find_host_name
from deploy.cli.operator_api import find_operator_api
from deploy.cli.operator_command import AuditedAct, run_audited, run_on_database
from deploy.cli.options import DataOption, JsonOption
from deploy.cli.output import create_console, exit_with, print_json, print_rows
from deploy.cli.running_stack import find_running_stack
from deploy.components.bootstrap import HOST
from deploy.notices import print_notice
from deploy.tables import ResultTable
from store import identity
from store.clock import DatabaseClock
from store.database import Database
from store.errors import NotFound
from store.tenancy.quotas import Quota, QuotaLimits, Quotas

HostOption = Annotated[str, typer.Option(parser=name_arguments.parse_name, metavar="NAME", help="The tenant (host).")]
MOST = 2**63 - 1
TurnsOption = Annotated[int | None, typer.Option(min=0, max=MOST, metavar="N", help="Most turns stored.")]
BytesOption = Annotated[
    int | None, typer.Option(min=0, max=MOST, metavar="N", help="Most bytes stored, as counted above.")
]
BanksOption = Annotated[
    int | None, typer.Option(min=0, max=MOST, metavar="N", help="Most banks of the tenant; not with --bank.")
]
RateOption = Annotated[
    int | None, typer.Option(min=0, max=MOST, metavar="N", help="Most turns accepted in a minute of the clock.")
]

quota_app = typer.Typer(
    help="Set and show quotas of tenants and banks.", no_args_is_help=True, rich_markup_mode="markdown"
)


@quota_app.command("set")
def set_command(
    *,
    bank: Annotated[
        str | None,
        typer.Option(parser=name_arguments.parse_bank, metavar="NAME", help="A bank (default: the whole tenant)."),
    ] = None,
    max_turns: TurnsOption = None,
    max_bytes: BytesOption = None,
    max_banks: BanksOption = None,
    turns_per_minute: RateOption = None,
    host: HostOption = HOST,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set all limits of a tenant or bank at once; an option left out means no limit.

    Without options the quota is removed. Stored data counts. Bytes are what callers wrote: messages with parts and
    metadata, single memories, documents, directives, links, each version of a corrected or pinned unit; of plugin
    namespaces names, metadata and vectors (4 bytes a number); recall jobs until they expire, and turns that
    memory_run_turn opened until they are stored, or pruned within hours. A write above a limit is refused with 429:
    QUOTA_EXCEEDED, or RATE_LIMITED for turns per minute.

    **Example:** `afterturn quota set --max-turns 100000 --turns-per-minute 600`
    """
    if bank is not None and max_banks is not None:
        raise typer.BadParameter("--max-banks is a limit of the tenant")
    limits = QuotaLimits(max_turns, max_bytes, max_banks, turns_per_minute)

    async def put(database: Database, act: AuditedAct) -> list[Quota]:
        quotas = Quotas(database, act.clock)
        try:
            await quotas.set(host, bank, limits)
        except IntegrityError:
            raise NotFound("there is no such tenant: make a key for it first") from None
        act.rows = 1
        return await quotas.show(host)

    stack = find_running_stack(data)
    if api := find_operator_api(stack):
        print_rows(
            api.call("PUT", "/quotas", {"tenant": host, "bank": bank, **asdict(limits)}), "quotas", as_json=as_json
        )
        return
    try:
        found = run_audited(stack, "quota set", identity.host_id(host), put)
    except NotFound as error:
        raise exit_with(str(error), 1) from None
    _print_quotas(found, as_json=as_json)


@quota_app.command("show")
def show_command(*, host: HostOption = HOST, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Show quotas and usage of a tenant and its banks.

    **Example:** `afterturn quota show`
    """
    stack = find_running_stack(data)
    if api := find_operator_api(stack):
        print_rows(api.call("GET", "/quotas", tenant=host), "quotas", as_json=as_json)
        return
    called = find_host_name(stack, host)

    async def everything(database: Database) -> list[Quota]:
        return await Quotas(database, await DatabaseClock.asked(database)).show(called)

    _print_quotas(run_on_database(stack, everything), as_json=as_json)


def _print_quotas(found: list[Quota], *, as_json: bool) -> None:
    if as_json:
        print_json({"quotas": [_serialise_quota(quota) for quota in found]})
    elif found:
        create_console().print(_build_table(found))
    else:
        print_notice("there are no quotas")


def _serialise_quota(quota: Quota) -> dict[str, Any]:
    used = {"turns": quota.turns, "bytes": quota.bytes, "banks": quota.banks if quota.bank is None else None}
    return {"bank": quota.bank, "limits": asdict(quota.limits), "used": used}


def _build_table(found: list[Quota]) -> ResultTable:
    table = ResultTable("of", "turns", "bytes", "banks", "turns a minute")
    for quota in found:
        most = quota.limits
        banks = "" if quota.bank is not None else _format_usage(quota.banks, most.max_banks)
        counts = [_format_usage(quota.turns, most.max_turns), _format_usage(quota.bytes, most.max_bytes), banks]
        rate = "any" if most.turns_per_minute is None else str(most.turns_per_minute)
        table.add_values("the tenant" if quota.bank is None else quota.bank, *counts, rate)
    return table


def _format_usage(used: int, most: int | None) -> str:
    return f"{used:,}" if most is None else f"{used:,} of {most:,}"
