"""`afterturn keys`: who may do what. A key is shown once, when it is made; only its hash is kept."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Annotated, Any, TypeVar
from uuid import UUID

import typer
from rich.table import Table

from deploy.bootstrap import HOST
from deploy.cli import name_arguments
from deploy.cli.durations import duration
from deploy.cli.existence import host_called
from deploy.cli.operator_command import Act, acted, on_database
from deploy.cli.output import answer, console, ended, printable, say
from deploy.cli.running_stack import DataOption, JsonOption, running_stack
from deploy.local.private_files import write_private
from deploy.local.stack import Stack
from store import identity
from store.database import Database
from store.errors import NotFound
from store.tenancy.keys import KeyInfo, Keys, Successor

T = TypeVar("T")

HostOption = Annotated[
    str, typer.Option(parser=name_arguments.name, metavar="NAME", help="The host (tenant) whose keys these are.")
]
ExpiresOption = Annotated[
    timedelta | None,
    typer.Option(parser=duration, metavar="LENGTH", help="How long the key works: 90d, 24h (default: for ever)."),
]
LabelOption = Annotated[str, typer.Option(help="What the key is for; shown in the list.")]
BanksOption = Annotated[
    list[str] | None,
    typer.Option(
        parser=name_arguments.bank,
        metavar="NAME",
        help="A bank the key may touch; may be repeated (default: every bank).",
    ),
]
UserOption = Annotated[
    str | None,
    typer.Option(
        parser=name_arguments.name, metavar="NAME", help="Write as this user alone, reach no other user's banks."
    ),
]
AgentOption = Annotated[
    str | None,
    typer.Option(
        parser=name_arguments.name, metavar="NAME", help="Reach the banks of this agent and no other agent's."
    ),
]
ReadOnlyFlag = Annotated[bool, typer.Option("--read-only", help="The key may recall and not write.")]
CurateFlag = Annotated[
    bool, typer.Option("--curate", help="Lay down directives and pin in shared banks, too (with --user or --agent).")
]
GatewayUserOption = Annotated[
    str | None,
    typer.Option(
        parser=name_arguments.name, metavar="NAME", help="Make the user key of this Memory Gateway user instead."
    ),
]

keys_app = typer.Typer(help="Create, list, rotate and revoke keys.", no_args_is_help=True, rich_markup_mode="markdown")


@keys_app.command("create")
def create_command(
    *,
    label: LabelOption = "",
    bank: BanksOption = None,
    user: UserOption = None,
    agent: AgentOption = None,
    read_only: ReadOnlyFlag = False,
    curate: CurateFlag = False,
    expires: ExpiresOption = None,
    gateway_user: GatewayUserOption = None,
    host: HostOption = HOST,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a key and print it: the only time it is seen.

    In banks that others share, a key of a user or an agent corrects, links, forgets and erases what its user or agent
    said, and nothing else. Directives and pins concern every reader of a bank: in a shared one they need a key without
    a user and an agent, or `--curate`.

    **Example:** `afterturn keys create --label "support bot" --bank support --user ana --expires 90d`
    """
    if gateway_user and (bank or user or agent or read_only or curate):
        raise typer.BadParameter("a gateway user's key opens that user's memory and nothing else")
    if curate and read_only:
        raise typer.BadParameter("a key that only reads lays nothing down: leave out --read-only or --curate")
    if expires == timedelta():
        raise typer.BadParameter("a key that expires at once opens nothing", param_hint="--expires")

    scope = {"gateway_user": gateway_user, "user": user, "agent": agent}
    rights = {"write": not read_only, "curate": curate}

    async def create(keys: Keys, now: datetime) -> tuple[str, datetime | None]:
        until = None if expires is None else now + expires
        made = keys.create(
            host,
            label,
            banks=bank or None,
            write=rights["write"],
            curate=rights["curate"],
            expires_at=until,
            **scope,
        )
        return await made, until

    token, until = _changed(running_stack(data), "keys create", host, create)
    if as_json:
        about = {"label": label, "banks": sorted(bank) if bank else None, **rights}
        answer({"key": token, **about, **scope, "expires_at": _moment(until)})
    else:
        say("keep this key: it is not shown again")
        print(token)


@keys_app.command("list")
def list_command(*, host: HostOption = HOST, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the keys, revoked and expired ones too, without their secrets.

    **Example:** `afterturn keys list`
    """
    stack = running_stack(data)
    called = host_called(stack, host)

    async def everything(database: Database) -> list[KeyInfo]:
        return await Keys(database).list(called)

    found = on_database(stack, everything)
    if as_json:
        answer({"keys": [_as_json(key) for key in found]})
    else:
        console().print(_table(found))


@keys_app.command("revoke")
def revoke_command(
    key_id: Annotated[UUID, typer.Argument(metavar="KEY_ID", help="The key's id, from `afterturn keys list`.")],
    *,
    host: HostOption = HOST,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Revoke a key: within seconds nobody can use it any more.

    **Example:** `afterturn keys revoke 0b7c…`
    """

    async def revoke(keys: Keys, _now: datetime) -> bool:
        await keys.revoke(host, key_id)
        return True

    try:
        revoked = _changed(running_stack(data), "keys revoke", host, revoke)
    except NotFound:
        revoked = False
    if as_json:
        answer({"key_id": str(key_id), "revoked": revoked})
    say(f"key {key_id} is revoked" if revoked else f"there is no key {key_id}, or it is revoked already")
    raise typer.Exit(0 if revoked else 1)


@keys_app.command("rotate")
def rotate_command(
    key_id: Annotated[UUID, typer.Argument(metavar="KEY_ID", help="The key's id, from `afterturn keys list`.")],
    *,
    overlap: Annotated[
        timedelta, typer.Option(parser=duration, metavar="LENGTH", help="How long the old key still works.")
    ] = timedelta(hours=24),
    expires: ExpiresOption = None,
    host: HostOption = HOST,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a key that may do the same and print it; the old one works until the overlap is over.

    A key that was made to expire gets a successor that lives as long. The stack's own key is replaced in its file.

    **Example:** `afterturn keys rotate 0b7c… --overlap 24h`
    """
    stack = running_stack(data)

    async def rotate(keys: Keys, now: datetime) -> tuple[Successor, bool]:
        own = await keys.authenticate(_kept(stack))
        expires_at = None if expires is None else now + expires
        successor = await keys.rotate(host, key_id, overlap, expires_at=expires_at)
        return successor, own is not None and own.key_id == key_id

    try:
        successor, own = _changed(stack, "keys rotate", host, rotate)
    except NotFound:
        raise ended(f"there is no key {key_id}, or it is revoked, expired or replaced already", 1) from None
    kept = not own or _keep(stack, successor.token)
    if as_json:
        about = {"key_id": str(successor.key_id), "replaces": str(key_id), "expires_at": _moment(successor.expires_at)}
        answer({"key": successor.token, **about})
    else:
        say("keep this key: it is not shown again")
        print(successor.token)
    raise typer.Exit(0 if kept else 1)


def _keep(stack: Stack, token: str) -> bool:
    """Write the stack's own key into its file; False: that failed, and what is shown is all there is of it."""
    try:
        write_private(stack.api_key_file, token)
    except OSError as error:
        say(f"{stack.api_key_file} cannot be written ({type(error).__name__}): put the new key there yourself")
        return False
    say(f"the key in {stack.api_key_file} is the new one")
    return True


def _kept(stack: Stack) -> str:
    try:
        return stack.api_key()
    except (OSError, UnicodeDecodeError):
        return ""


def _changed(stack: Stack, operation: str, host: str, work: Callable[[Keys, datetime], Awaitable[T]]) -> T:
    """Do something with the running stack's keys by its database's time, and note it.

    Ends with status 1 when the database does not answer.
    """

    async def do(database: Database, act: Act) -> T:
        done = await work(Keys(database), act.clock())
        act.rows = 1
        return done

    return acted(stack, operation, identity.host_id(host), do)


def _as_json(key: KeyInfo) -> dict[str, Any]:
    return {
        "key_id": str(key.key_id),
        "label": key.label,
        "banks": None if key.banks is None else list(key.banks),
        "write": key.write,
        "curate": key.curate,
        "gateway_user": key.gateway_user,
        "user": key.user,
        "agent": key.agent,
        "created_at": key.created_at.isoformat(),
        "revoked_at": _moment(key.revoked_at),
        "expires_at": _moment(key.expires_at),
        "replaced_by": str(key.replaced_by) if key.replaced_by else None,
        "state": key.state,
    }


def _moment(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


def _table(found: list[KeyInfo]) -> Table:
    table = Table("key_id", "label", "may", "banks", "created", "state", box=None, pad_edge=False)
    for key in found:
        banks = "all" if key.banks is None else ", ".join(key.banks) or "none"
        shown = [str(key.key_id), key.label, _may(key), banks, f"{key.created_at:%Y-%m-%d %H:%M}", _state(key)]
        table.add_row(*map(printable, shown))
    return table


def _may(key: KeyInfo) -> str:
    if key.gateway_user:
        return f"gateway of {key.gateway_user}"
    user = f" as {key.user}" if key.user else ""
    rights = "read, write and curate" if key.curate else "read and write" if key.write else "read"
    return rights + user + (f" for agent {key.agent}" if key.agent else "")


def _state(key: KeyInfo) -> str:
    """Return how a key stands: active, until when, since when it is over, what replaced it."""
    at = key.revoked_at or key.expires_at
    when = "" if at is None else f" {'until' if key.state == 'active' else 'since'} {at:%Y-%m-%d %H:%M}"
    return key.state + when + (f", replaced by {key.replaced_by}" if key.replaced_by else "")
