"""`afterturn quota`: how much a host, or one of its banks, may hold and take in."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.table import Table
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from deploy.bootstrap import HOST
from deploy.cli.finding import DataOption, JsonOption, database_of, running_stack
from deploy.cli.printing import answer, console, ended, printable, say
from store.database import Database
from store.quotas import Limits, Quota, Quotas

T = TypeVar("T")

HostOption = Annotated[str, typer.Option(help="The host (tenant).")]
Limit = Annotated[int | None, typer.Option(min=0, metavar="N")]

quota_app = typer.Typer(help="Set and show quotas.", no_args_is_help=True, rich_markup_mode="markdown")


@quota_app.command("set")
def set_command(
    *,
    bank: Annotated[str | None, typer.Option(help="A bank (default: the whole host).")] = None,
    max_turns: Limit = None,
    max_bytes: Limit = None,
    max_banks: Limit = None,
    turns_per_minute: Limit = None,
    host: HostOption = HOST,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set the limits of a host or of a bank: all of them at once; what is not named has no limit.

    Without any limit the quota is lifted. What is there already counts. Bytes are those of messages. A write past
    a limit is refused with 429: QUOTA_EXCEEDED, or RATE_LIMITED past the turns of a minute.

    **Example:** `afterturn quota set --max-turns 100000 --turns-per-minute 600`
    """
    if bank is not None and max_banks is not None:
        raise typer.BadParameter("--max-banks is a limit of the host")
    limits = Limits(max_turns, max_bytes, max_banks, turns_per_minute)

    async def put(quotas: Quotas) -> list[Quota]:
        await quotas.set(host, bank, limits)
        return await quotas.show(host)

    _print(_with_quotas(data, put), as_json=as_json)


@quota_app.command("show")
def show_command(*, host: HostOption = HOST, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Show the quotas of a host and of its banks, and what of them is used.

    **Example:** `afterturn quota show`
    """

    async def everything(quotas: Quotas) -> list[Quota]:
        return await quotas.show(host)

    _print(_with_quotas(data, everything), as_json=as_json)


def _with_quotas(data: Path | None, work: Callable[[Quotas], Awaitable[T]]) -> T:
    """Do something with the running stack's quotas; ends with status 1 when that cannot be done."""
    stack = running_stack(data)

    async def run() -> T:
        database = Database(database_of(stack))
        try:
            return await work(Quotas(database, lambda: datetime.now(UTC)))
        finally:
            await database.close()

    try:
        return asyncio.run(run())
    except IntegrityError:
        raise ended("there is no such host: make a key for it first", 1) from None
    except (SQLAlchemyError, OSError) as error:
        raise ended(f"the database of the stack does not answer ({type(error).__name__})", 1) from None


def _print(found: list[Quota], *, as_json: bool) -> None:
    if as_json:
        answer({"quotas": [_as_json(quota) for quota in found]})
    elif found:
        console().print(_table(found))
    else:
        say("there are no quotas")


def _as_json(quota: Quota) -> dict[str, Any]:
    used = {"turns": quota.turns, "bytes": quota.bytes, "banks": quota.banks if quota.bank is None else None}
    return {"bank": quota.bank, "limits": asdict(quota.limits), "used": used}


def _table(found: list[Quota]) -> Table:
    table = Table("of", "turns", "bytes", "banks", "turns a minute", box=None, pad_edge=False)
    for quota in found:
        most = quota.limits
        banks = "" if quota.bank is not None else _of(quota.banks, most.max_banks)
        counts = [_of(quota.turns, most.max_turns), _of(quota.bytes, most.max_bytes), banks]
        rate = "any" if most.turns_per_minute is None else str(most.turns_per_minute)
        table.add_row("the host" if quota.bank is None else printable(quota.bank), *counts, rate)
    return table


def _of(used: int, most: int | None) -> str:
    return f"{used:,}" if most is None else f"{used:,} of {most:,}"
