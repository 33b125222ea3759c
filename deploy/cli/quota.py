"""`afterturn quota`: limits on the size and write rate of a tenant or bank."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from afterturn_client.contract.operators import Quota, QuotaList

from deploy.cli import name_arguments
from deploy.cli.operator_api import OperatorApi, read_answer
from deploy.cli.options import DataOption, JsonOption, create_group
from deploy.cli.output import create_console, print_json
from deploy.cli.running_stack import find_running_stack
from deploy.components.bootstrap import HOST
from deploy.notices import print_notice
from deploy.tables import ResultTable

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

quota_app = create_group()


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
    limits = {"max_turns": max_turns, "max_bytes": max_bytes, "max_banks": max_banks}
    body = {"tenant": host, "bank": bank, **limits, "turns_per_minute": turns_per_minute}
    _print_quotas(OperatorApi(find_running_stack(data)).call("PUT", "/quotas", body), as_json=as_json)


@quota_app.command("show")
def show_command(*, host: HostOption = HOST, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Show quotas and usage of a tenant and its banks.

    **Example:** `afterturn quota show`
    """
    api = OperatorApi(find_running_stack(data))
    _print_quotas(api.call("GET", "/quotas", tenant=api.tenant_name(host)), as_json=as_json)


def _print_quotas(answer: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
    elif found := read_answer(QuotaList, answer).quotas:
        create_console().print(_build_table(found))
    else:
        print_notice("there are no quotas")


def _build_table(found: Sequence[Quota]) -> ResultTable:
    table = ResultTable("of", "turns", "bytes", "banks", "turns a minute")
    for quota in found:
        most, used = quota.limits, quota.used
        banks = _format_usage(used["banks"], most["max_banks"]) if "banks" in used else ""
        rate = most["turns_per_minute"]
        table.add_values(
            "the tenant" if quota.bank is None else quota.bank,
            _format_usage(used["turns"], most["max_turns"]),
            _format_usage(used["bytes"], most["max_bytes"]),
            banks,
            "any" if rate is None else str(rate),
        )
    return table


def _format_usage(used: int, most: int | None) -> str:
    return f"{used:,}" if most is None else f"{used:,} of {most:,}"
