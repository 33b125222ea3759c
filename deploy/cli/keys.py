"""`afterturn keys`: who may do what. A key is shown once, when it is made; only its hash is kept."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar
from uuid import UUID

import typer
from rich.table import Table
from sqlalchemy.exc import SQLAlchemyError

from deploy.bootstrap import HOST
from deploy.cli.finding import DataOption, JsonOption, database_of, running_stack
from deploy.cli.printing import answer, console, ended, printable, say
from store.database import Database
from store.errors import NotFound
from store.keys import KeyInfo, Keys

T = TypeVar("T")

keys_app = typer.Typer(help="Create, list and revoke keys.", no_args_is_help=True, rich_markup_mode="markdown")


@keys_app.command("create")
def create_command(
    *,
    label: Annotated[str, typer.Option(help="What the key is for; shown in the list.")] = "",
    bank: Annotated[
        list[str] | None, typer.Option(help="A bank the key may touch; may be repeated (default: every bank).")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="The key may recall and not write.")] = False,
    gateway_user: Annotated[
        str | None, typer.Option(metavar="NAME", help="Make the user key of this Memory Gateway user instead.")
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a key and print it: the only time it is seen.

    **Example:** `afterturn keys create --label "support bot" --bank support`
    """

    async def create(keys: Keys) -> str:
        return await keys.create(HOST, label, banks=bank or None, write=not read_only, gateway_user=gateway_user)

    token = _with_keys(data, create)
    if as_json:
        banks = sorted(bank) if bank else None
        about = {"label": label, "banks": banks, "write": not read_only, "gateway_user": gateway_user}
        answer({"key": token, **about})
    else:
        say("keep this key: it is not shown again")
        print(token)


@keys_app.command("list")
def list_command(*, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the keys, revoked ones too, without their secrets.

    **Example:** `afterturn keys list`
    """

    async def everything(keys: Keys) -> list[KeyInfo]:
        return await keys.list(HOST)

    found = _with_keys(data, everything)
    if as_json:
        answer({"keys": [_as_json(key) for key in found]})
    else:
        console().print(_table(found))


@keys_app.command("revoke")
def revoke_command(
    key_id: Annotated[UUID, typer.Argument(metavar="KEY_ID", help="The key's id, from `afterturn keys list`.")],
    *,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Revoke a key: within seconds nobody can use it any more.

    **Example:** `afterturn keys revoke 0b7c…`
    """

    async def revoke(keys: Keys) -> bool:
        try:
            await keys.revoke(HOST, key_id)
        except NotFound:
            return False
        return True

    revoked = _with_keys(data, revoke)
    if as_json:
        answer({"key_id": str(key_id), "revoked": revoked})
    say(f"key {key_id} is revoked" if revoked else f"there is no key {key_id}, or it is revoked already")
    raise typer.Exit(0 if revoked else 1)


def _with_keys(data: Path | None, work: Callable[[Keys], Awaitable[T]]) -> T:
    """Do something with the running stack's keys; ends with status 1 when its database does not answer."""
    stack = running_stack(data)

    async def run() -> T:
        database = Database(database_of(stack))
        try:
            return await work(Keys(database))
        finally:
            await database.close()

    try:
        return asyncio.run(run())
    except (SQLAlchemyError, OSError) as error:
        raise ended(f"the database of the stack does not answer ({type(error).__name__})", 1) from None


def _as_json(key: KeyInfo) -> dict[str, Any]:
    return {
        "key_id": str(key.key_id),
        "label": key.label,
        "banks": None if key.banks is None else list(key.banks),
        "write": key.write,
        "gateway_user": key.gateway_user,
        "created_at": key.created_at.isoformat(),
        "revoked_at": key.revoked_at.isoformat() if key.revoked_at else None,
    }


def _table(found: list[KeyInfo]) -> Table:
    table = Table("key_id", "label", "may", "banks", "created", "revoked", box=None, pad_edge=False)
    for key in found:
        may = f"gateway of {key.gateway_user}" if key.gateway_user else "read and write" if key.write else "read"
        banks = "all" if key.banks is None else ", ".join(key.banks) or "none"
        revoked = f"{key.revoked_at:%Y-%m-%d %H:%M}" if key.revoked_at else ""
        shown = [str(key.key_id), key.label, may, banks, f"{key.created_at:%Y-%m-%d %H:%M}", revoked]
        table.add_row(*map(printable, shown))
    return table
