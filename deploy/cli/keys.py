"""`afterturn keys`: API keys. A key is shown once, when it is created; only its hash is stored."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any
from uuid import UUID, uuid4

import typer
from afterturn_client.contract.operators import Key, KeyList

from deploy.cli import name_arguments
from deploy.cli.operator_api import OperatorApi, read_answer
from deploy.cli.operator_command import AuditedAct, run_audited, run_on_database
from deploy.cli.options import DataOption, JsonOption, create_group
from deploy.cli.output import create_console, exit_with, print_json, print_rows
from deploy.cli.running_stack import find_running_stack
from deploy.cli.times import parse_duration
from deploy.components.bootstrap import HOST
from deploy.local.private_files import write_private
from deploy.local.stack import Stack
from deploy.notices import print_notice
from deploy.tables import ResultTable
from store.database import Database
from store.errors import NotFound
from store.tenancy.call_audit import NO_HOST
from store.tenancy.keys import Keys
from store.tenancy.operator_keys import OperatorKey, OperatorKeys

HostOption = Annotated[
    str, typer.Option(parser=name_arguments.parse_name, metavar="NAME", help="The tenant (host) of the keys.")
]
ExpiresOption = Annotated[
    timedelta | None,
    typer.Option(parser=parse_duration, metavar="LENGTH", help="Lifetime of the key: 90d, 24h (default: unlimited)."),
]
LabelOption = Annotated[str, typer.Option(help="A label, shown by `keys list`.")]
BanksOption = Annotated[
    list[str] | None,
    typer.Option(
        parser=name_arguments.parse_bank,
        metavar="NAME",
        help="Restrict the key to this bank (repeatable; default: every bank).",
    ),
]
UserOption = Annotated[
    str | None,
    typer.Option(
        parser=name_arguments.parse_name,
        metavar="NAME",
        help="Restrict the key to this user: it writes as this user and reaches no other user's banks.",
    ),
]
AgentOption = Annotated[
    str | None,
    typer.Option(parser=name_arguments.parse_name, metavar="NAME", help="Restrict the key to this agent's banks."),
]
ReadOnlyFlag = Annotated[bool, typer.Option("--read-only", help="Create a read-only key.")]
CurateFlag = Annotated[
    bool, typer.Option("--curate", help="Also allow directives and pins in shared banks (with --user or --agent).")
]
GatewayUserOption = Annotated[
    str | None,
    typer.Option(
        parser=name_arguments.parse_name,
        metavar="NAME",
        help="Create the user key of this Memory Gateway user instead.",
    ),
]

keys_app = create_group()


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
    operator: Annotated[
        bool, typer.Option("--operator", help="Create a key without a tenant, for `/api/v1/operator/*` only.")
    ] = False,
    makes_keys: Annotated[
        bool,
        typer.Option("--makes-keys", help="With --operator: let it make and rotate tenants' keys, which read content."),
    ] = False,
    host: HostOption = HOST,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a key and print it; it is never shown again.

    `--operator` creates a key without a tenant, for operators' commands from any machine (`afterturn context add`). It
    cannot read content, nor (without `--makes-keys`) make a key that can.

    In a shared bank, a user's or agent's key corrects, links, forgets and erases only what that user or agent said.
    Directives and pins affect every reader of a bank: in a shared one they need an unrestricted key or `--curate`.

    **Example:** `afterturn keys create --label "support bot" --bank support --user ana --expires 90d`
    """
    restricted = bool(bank or user or agent or read_only or curate)
    _refuse_contradictions(restricted=restricted, gateway_user=gateway_user, operator=operator, makes_keys=makes_keys)
    if curate and read_only:
        raise typer.BadParameter("a read-only key cannot write directives: leave out --read-only or --curate")
    if expires == timedelta():
        raise typer.BadParameter("a key that expires at once opens nothing", param_hint="--expires")

    stack = find_running_stack(data)
    if operator:
        _create_operator_key(stack, label, expires, makes_keys=makes_keys, as_json=as_json)
        return
    body: dict[str, Any] = {"tenant": host, "label": label, "banks": bank or None, "curate": curate}
    body |= {"user": user, "agent": agent, "gateway_user": gateway_user, "write": not read_only}
    _print_new_key(OperatorApi(stack).call("POST", "/keys", body | _lifetime(expires)), as_json=as_json)


def _refuse_contradictions(*, restricted: bool, gateway_user: str | None, operator: bool, makes_keys: bool) -> None:
    """Refuse rights that a kind of key cannot have. Raises typer.BadParameter."""
    if gateway_user and restricted:
        raise typer.BadParameter("a gateway user's key opens that user's memory and nothing else")
    if operator and (restricted or gateway_user):
        raise typer.BadParameter("a key of an operator has no tenant and no rights there", param_hint="--operator")
    if makes_keys and not operator:
        raise typer.BadParameter("only an operator's key makes keys: give --operator, too", param_hint="--makes-keys")


@keys_app.command("list")
def list_command(*, host: HostOption = HOST, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List keys without their secrets, revoked and expired ones included.

    **Example:** `afterturn keys list`
    """
    api = OperatorApi(find_running_stack(data))
    answer = api.call("GET", "/keys", tenant=api.tenant_name(host))
    if as_json:
        print_json(answer)
    else:
        create_console().print(_build_table(read_answer(KeyList, answer).keys))


@keys_app.command("revoke")
def revoke_command(
    key_id: Annotated[UUID, typer.Argument(metavar="KEY_ID", help="The key's id, from `afterturn keys list`.")],
    *,
    host: HostOption = HOST,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Revoke a key. All processes refuse it within seconds.

    **Example:** `afterturn keys revoke 0b7c…`
    """
    OperatorApi(find_running_stack(data)).call("DELETE", f"/keys/{key_id}", tenant=host)
    if as_json:
        print_json({"key_id": str(key_id), "revoked": True})
    print_notice(f"key {key_id} is revoked")


@keys_app.command("rotate")
def rotate_command(
    key_id: Annotated[UUID, typer.Argument(metavar="KEY_ID", help="The key's id, from `afterturn keys list`.")],
    *,
    overlap: Annotated[
        timedelta, typer.Option(parser=parse_duration, metavar="LENGTH", help="How long the old key keeps working.")
    ] = timedelta(hours=24),
    expires: ExpiresOption = None,
    host: HostOption = HOST,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a key with the same rights and print it; the old key works until the overlap ends.

    The successor of a key with a lifetime has the same lifetime. The stack's own key is replaced in its file.

    **Example:** `afterturn keys rotate 0b7c… --overlap 24h`
    """
    stack = find_running_stack(data)
    own = _is_own_key(stack, key_id)
    body = {"tenant": host, "overlap_s": int(overlap.total_seconds()), **_lifetime(expires)}
    made = OperatorApi(stack).call("POST", f"/keys/{key_id}/rotate", body)
    kept = not own or _save_stack_key(stack, made["key"])
    _print_new_key(made, as_json=as_json)
    raise typer.Exit(0 if kept else 1)


def _lifetime(expires: timedelta | None) -> dict[str, int]:
    return {} if expires is None else {"expires_s": int(expires.total_seconds())}


def _print_new_key(made: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(made)
    else:
        print_notice("keep this key: it is not shown again")
        print(made["key"])


def _is_own_key(stack: Stack, key_id: UUID) -> bool:
    """Return whether this is the key in the file of a stack on this machine, which its database knows."""
    token = _read_stack_key(stack)
    if not token or not stack.database_url.get_secret_value():
        return False
    own = run_on_database(stack, lambda database: Keys(database).authenticate(token))
    return own is not None and own.key_id == key_id


def _create_operator_key(
    stack: Stack, label: str, expires: timedelta | None, *, makes_keys: bool, as_json: bool
) -> None:
    """Create an operator's key in the database and print it."""
    key = uuid4()

    async def create(database: Database, act: AuditedAct) -> tuple[str, datetime | None]:
        until = None if expires is None else act.clock() + expires
        made = await OperatorKeys(database).create(label, until, makes_keys=makes_keys, key_id=key)
        act.rows = 1
        return made, until

    operation = "keys create --operator --makes-keys" if makes_keys else "keys create --operator"
    token, until = run_audited(stack, operation, NO_HOST, create)
    about = {"label": label, "operator": True, "makes_keys": makes_keys, "expires_at": until}
    _print_new_key({"key_id": str(key), "key": token, **about}, as_json=as_json)


@keys_app.command("list-operators")
def list_operators_command(*, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List operators' keys, revoked and expired ones included.

    **Example:** `afterturn keys list-operators`
    """

    async def everything(database: Database) -> list[OperatorKey]:
        return await OperatorKeys(database).list()

    found = run_on_database(find_running_stack(data), everything)
    shown = [
        {"key_id": str(one.key_id), "label": one.label, "state": one.state, "makes_keys": one.makes_keys}
        for one in found
    ]
    print_rows({"keys": shown}, "keys", as_json=as_json)


@keys_app.command("revoke-operator")
def revoke_operator_command(
    key_id: Annotated[
        UUID, typer.Argument(metavar="KEY_ID", help="The key's id, from `afterturn keys list-operators`.")
    ],
    *,
    data: DataOption = None,
) -> None:
    """Revoke an operator's key. All processes refuse it within seconds.

    **Example:** `afterturn keys revoke-operator 0b7c…`
    """

    async def revoke(database: Database, act: AuditedAct) -> None:
        await OperatorKeys(database).revoke(key_id)
        act.rows = 1

    try:
        run_audited(find_running_stack(data), "keys revoke-operator", NO_HOST, revoke)
    except NotFound as error:
        raise exit_with(str(error), 1) from None
    print_notice(f"key {key_id} is revoked")


def _save_stack_key(stack: Stack, token: str) -> bool:
    """Write the stack's own key into its file; False when that failed and only the printed key remains."""
    try:
        write_private(stack.api_key_file, token)
    except OSError as error:
        print_notice(f"{stack.api_key_file} cannot be written ({type(error).__name__}): put the new key there yourself")
        return False
    print_notice(f"the key in {stack.api_key_file} is the new one")
    return True


def _read_stack_key(stack: Stack) -> str:
    try:
        return stack.api_key()
    except (OSError, UnicodeDecodeError):
        return ""


def _build_table(found: Sequence[Key]) -> ResultTable:
    table = ResultTable("key_id", "label", "may", "banks", "created", "state")
    for key in found:
        banks = "all" if key.banks is None else ", ".join(key.banks) or "none"
        shown = [
            str(key.key_id),
            key.label,
            _describe_rights(key),
            banks,
            f"{key.created_at:%Y-%m-%d %H:%M}",
            _describe_state(key),
        ]
        table.add_values(*shown)
    return table


def _describe_rights(key: Key) -> str:
    if key.gateway_user:
        return f"gateway of {key.gateway_user}"
    user = f" as {key.user}" if key.user else ""
    rights = "read, write and curate" if key.curate else "read and write" if key.write else "read"
    return rights + user + (f" for agent {key.agent}" if key.agent else "")


def _describe_state(key: Key) -> str:
    """Return a key's state in words: active until, revoked or expired since, replaced by."""
    at = key.revoked_at or key.expires_at
    when = "" if at is None else f" {'until' if key.state == 'active' else 'since'} {at:%Y-%m-%d %H:%M}"
    return key.state + when + (f", replaced by {key.replaced_by}" if key.replaced_by else "")
