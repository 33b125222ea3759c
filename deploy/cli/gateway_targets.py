"""`afterturn gateway set|unset|list-targets|reseal`: the Memory Gateway that receives a tenant's or bank's turns."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer
from afterturn_client.contract.operators import GatewayTarget, TargetList
from afterturn_client.errors import InvalidRequestError
from afterturn_client.transport import check_way
from pydantic import TypeAdapter, ValidationError

from deploy.cli import name_arguments
from deploy.cli.existence import find_host_id
from deploy.cli.key_input import read_key
from deploy.cli.ledger_rows import SELF
from deploy.cli.operator_api import OperatorApi, read_answer
from deploy.cli.operator_command import AuditedAct, read_operator_name, run_audited
from deploy.cli.options import DataOption, JsonOption
from deploy.cli.output import as_api_json, create_console, exit_with, print_json
from deploy.cli.running_stack import find_running_stack
from deploy.components.bootstrap import HOST
from deploy.local.stack import Stack
from deploy.notices import print_notice
from deploy.tables import ResultTable
from producers.service.gateway_clients import canonical_url
from producers.service.operator_targets import describe_target
from store import identity
from store.database import Database
from store.errors import NotFound, SealBroken, TargetTaken
from store.tenancy.gateway_targets import GatewayTargets, GatewayUser, seal_place
from store.tenancy.sealing import Sealer
from workers.settings import DeliverySettings, Scope, sealing_keys

TenantOption = Annotated[
    str,
    typer.Option(parser=name_arguments.parse_name, metavar="NAME", help="The tenant (host) whose turns are delivered."),
]
OneBankOption = Annotated[
    str | None,
    typer.Option(
        parser=name_arguments.parse_bank,
        metavar="NAME",
        help="Only this bank; its target takes precedence over the tenant's (default: all banks).",
    ),
]
ScopeOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WORD",
        help="Where a recall through it looks: current_chat, resources or all_user_memory; may be repeated.",
    ),
]
GatewayName = Annotated[
    str,
    typer.Option(parser=name_arguments.parse_name, metavar="NAME", help="Application scope (`app_id`) at the gateway."),
]
ProjectName = Annotated[
    str,
    typer.Option(parser=name_arguments.parse_name, metavar="NAME", help="Project scope (`project_id`) at the gateway."),
]
SCOPES: TypeAdapter[tuple[Scope, ...]] = TypeAdapter(tuple[Scope, ...])


def set_command(
    url: Annotated[str, typer.Argument(metavar="URL", help="The gateway's address; /memories/add is appended.")],
    *,
    user_id: Annotated[
        str, typer.Option(parser=name_arguments.parse_name, metavar="NAME", help="User id at the gateway.")
    ],
    user_key_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File that holds the user's key (default: standard input)."),
    ] = None,
    app_id: GatewayName = "default",
    project_id: ProjectName = "default",
    scope: ScopeOption = None,
    host: TenantOption = HOST,
    bank: OneBankOption = None,
    allow_http: Annotated[
        bool,
        typer.Option("--allow-http", help="Allow plain http to another machine; turns and key travel unencrypted."),
    ] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Deliver new turns of a tenant, or of one bank, to a Memory Gateway.

    The session `s` of bank `b` is called `chat:b/s` at the gateway of a tenant and `chat:s` at that of one bank. A user
    of a gateway (with its application and project) belongs to one tenant or bank for good: the memory of two would
    merge there.

    The user's key is read from standard input, or asked for, and never shown again. It is kept in the database, sealed
    with the first of `gateway.sealing_keys` (`afterturn up` makes one, DIR/sealing-key: back it up, without it the key
    must be given again). To rotate the user's key, set the same target with the new key: deliveries that wait use it,
    too. To rotate the sealing key, see `afterturn gateway reseal --help`.

    Another address or user replaces the target: turns that were accepted before still go to the old one. To skip them,
    run `afterturn gateway unset` first. For this service itself use `afterturn up --gateway self`.

    **Example:** `afterturn gateway set https://gateway.example.com --host acme --user-id acme < acme-key`
    """
    user = _build_user(url, user_id, app_id, project_id, allow_http=allow_http)
    scopes = _parse_scopes(scope)
    stack = find_running_stack(data)
    sealer = _create_sealer(stack)
    if not sealer:
        raise exit_with("there is no key to seal with: set gateway.sealing_keys and restart", 2)
    host_id = find_host_id(host)
    place = seal_place(host_id, _bank_id(host_id, bank), user)
    sealed = sealer.seal(read_key(user_key_file, "The user's key at the gateway"), place)

    async def put(database: Database, act: AuditedAct) -> GatewayTarget:
        targets = GatewayTargets(database)
        made = await targets.set(host_id, _bank_id(host_id, bank), user, scopes, sealed)
        act.rows = 1
        listed = await targets.list(host_id)
        return describe_target(next(one for one in listed if one.target.target_id == made.target_id), names=True)

    found = _change_target(stack, "gateway set", host_id, put)
    if bank is not None and found.bank is None:
        print_notice(f"tenant {host!r} has no bank {bank!r} yet: its first turn makes it")
    _print_targets(as_api_json(TargetList(targets=(found,))), as_json=as_json)


def unset_command(
    *,
    host: TenantOption = HOST,
    bank: OneBankOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop delivering turns of a tenant, or of one bank, to a gateway, and delete the key.

    Waiting deliveries end as skipped (`unset`), including those for earlier targets of the same tenant or bank; a call
    in flight completes. A bank without its own target uses the tenant's, if there is one. A target in the settings is
    set again when the API starts, unless `gateway.mode` is off.

    **Example:** `afterturn gateway unset --host acme`
    """
    stack = find_running_stack(data)
    host_id = find_host_id(host)

    async def end(database: Database, act: AuditedAct) -> tuple[list[UUID], int]:
        targets, skipped = await GatewayTargets(database).unset(host_id, _bank_id(host_id, bank), read_operator_name())
        act.rows = len(targets)
        return targets, skipped

    targets, skipped = _change_target(stack, "gateway unset", host_id, end)
    if as_json:
        print_json({"targets": [str(one) for one in targets], "skipped": skipped})
    elif targets:
        print(f"{len(targets)} targets unset, {skipped} deliveries skipped")
    if not targets:
        print_notice("no gateway target is set there; look with `afterturn gateway list-targets`")
        raise typer.Exit(1)


def list_command(
    *,
    host: Annotated[str | None, typer.Option(metavar="NAME", help="Only this tenant (host).")] = None,
    unset: Annotated[bool, typer.Option("--unset", help="Include unset targets.")] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List gateway targets: whose turns go where, and how many deliveries wait. No key is ever shown.

    `replaced`: another took its place, and it still gets what was accepted before. `breaker` is open while the gateway
    is not called because it fails.

    **Example:** `afterturn gateway list-targets --json`
    """
    api = OperatorApi(find_running_stack(data))
    asked = {"tenant": api.tenant_name(host), "unset": unset or None, "names": True}
    _print_targets(api.call("GET", "/targets", **asked), as_json=as_json)


def reseal_command(*, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Encrypt all gateway keys again with the first of `gateway.sealing_keys`.

    To rotate a sealing key: put the new one before the old one in `gateway.sealing_keys` (with `afterturn up`, the old
    one may be DIR/sealing-key), restart, run this, then remove the old one and restart. A new key is made by
    `head -c 32 /dev/urandom | base64 | tr '+/' '-_'`.

    **Example:** `afterturn gateway reseal`
    """
    stack = find_running_stack(data)
    sealer = _create_sealer(stack)

    async def all_of_them(database: Database, act: AuditedAct) -> tuple[int, int]:
        targets = GatewayTargets(database)
        sealed = lost = 0
        for target in await targets.sealed():
            try:
                key = sealer.open(target.sealed_key or "", target.seal_place)
                sealed += await targets.reseal(target, sealer.seal(key, target.seal_place))
            except SealBroken:
                lost += 1
        act.rows = sealed
        return sealed, lost

    sealed, lost = run_audited(stack, "gateway reseal", UUID(int=0), all_of_them)
    if as_json:
        print_json({"resealed": sealed, "lost": lost})
    else:
        print(f"{sealed} keys sealed anew")
    if lost:
        print_notice(f"{lost} keys cannot be opened with the sealing keys of this stack: set those targets again")
        raise typer.Exit(1)


def _change_target(stack: Stack, operation: str, host: UUID, work: Any) -> Any:
    try:
        return run_audited(stack, operation, host, work)
    except (NotFound, TargetTaken) as error:
        raise exit_with(str(error), 1) from None


def _build_user(url: str, user_id: str, app_id: str, project_id: str, *, allow_http: bool) -> GatewayUser:
    try:
        check_way(canonical_url(url), allow_http=allow_http)
        return GatewayUser(canonical_url(url), user_id, app_id, project_id)
    except InvalidRequestError as error:
        raise typer.BadParameter(str(error), param_hint="URL") from None


def _parse_scopes(wanted: Sequence[str] | None) -> tuple[str, ...]:
    if not wanted:
        return tuple(DeliverySettings().scope)
    try:
        return tuple(dict.fromkeys(SCOPES.validate_python(wanted)))
    except ValidationError:
        allowed = "current_chat, resources or all_user_memory"
        raise typer.BadParameter(f"must be {allowed}", param_hint="--scope") from None


def _create_sealer(stack: Stack) -> Sealer:
    return Sealer(sealing_keys(stack.gateway_sealing_keys))


def _bank_id(host: UUID, bank: str | None) -> UUID | None:
    return None if bank is None else identity.bank_id(host, bank)


def _print_targets(answer: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
    elif found := read_answer(TargetList, answer).targets:
        create_console().print(_build_table(found))
    else:
        print_notice("no gateway target is set: no turn is handed to a gateway")


def _build_table(found: Sequence[GatewayTarget]) -> ResultTable:
    columns = ("tenant", "bank", "gateway", "user", "sessions", "key", "state", "waiting")
    table = ResultTable(*columns, numbers=["waiting"])
    for one in found:
        bank = "all" if one.bank_id is None else one.bank or str(one.bank_id)
        user = f"{one.user_id} ({one.app_id}/{one.project_id})"
        shown = (one.tenant, bank, one.url or SELF, user, one.sessions, one.key, one.state)
        table.add_values(*shown, str(one.waiting))
    return table
