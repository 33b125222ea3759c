"""`afterturn tenants`: list and show tenants, over the operator API or in the database."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from deploy.cli import name_arguments
from deploy.cli.existence import find_host_id
from deploy.cli.operator_api import find_operator_api
from deploy.cli.operator_command import run_on_database
from deploy.cli.options import DataOption, JsonOption
from deploy.cli.output import exit_with, print_fields, print_rows
from deploy.cli.running_stack import find_running_stack
from store.database import Database
from store.errors import NotFound
from store.tenancy.tenants import Tenant, Tenants, TenantShown

PAGE = 200

tenants_app = typer.Typer(help="List and show tenants.", no_args_is_help=True, rich_markup_mode="markdown")


@tenants_app.command("list")
def list_command(
    *,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of rows.")] = PAGE,
    after: Annotated[str, typer.Option(metavar="NAME", help="Continue after this name.")] = "",
    cursor: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="`cursor` of the previous page (see --json).")
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List tenants by name.

    **Example:** `afterturn tenants list`
    """
    stack = find_running_stack(data)
    if api := find_operator_api(stack):
        print_rows(api.call("GET", "/tenants", limit=limit, cursor=cursor), "tenants", as_json=as_json)
        return

    async def read(database: Database) -> list[Tenant]:
        return await Tenants(database).list(after, limit)

    found = run_on_database(stack, read)
    print_rows({"tenants": [_as_json(one) for one in found]}, "tenants", as_json=as_json)


@tenants_app.command("show")
def show_command(
    tenant: Annotated[
        str, typer.Argument(parser=name_arguments.parse_name, metavar="NAME", help="Name or id of the tenant.")
    ],
    *,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a tenant: number of active keys and of undone work.

    **Example:** `afterturn tenants show acme`
    """
    stack, tenant_id = find_running_stack(data), find_host_id(tenant)
    if api := find_operator_api(stack):
        print_fields(api.call("GET", f"/tenants/{tenant_id}"), as_json=as_json)
        return

    async def read(database: Database) -> TenantShown:
        return await Tenants(database).get(tenant_id)

    try:
        found = run_on_database(stack, read)
    except NotFound:
        raise exit_with(f"there is no tenant {tenant!r}", 1) from None
    print_fields(_as_json(found), as_json=as_json)


def _as_json(tenant: Tenant) -> dict[str, Any]:
    return {**asdict(tenant), "tenant_id": str(tenant.tenant_id), "created_at": tenant.created_at.isoformat()}
