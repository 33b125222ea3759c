"""`afterturn tenants`: list and show tenants."""

from typing import Annotated

import typer

from deploy.cli import name_arguments
from deploy.cli.existence import find_host_id
from deploy.cli.operator_api import OperatorApi
from deploy.cli.options import DataOption, JsonOption, create_group
from deploy.cli.output import print_fields, print_rows
from deploy.cli.running_stack import find_running_stack

PAGE = 200

tenants_app = create_group()


@tenants_app.command("list")
def list_command(
    *,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of rows.")] = PAGE,
    cursor: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="`cursor` of the previous page (see --json).")
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List tenants by name.

    **Example:** `afterturn tenants list`
    """
    answer = OperatorApi(find_running_stack(data)).call("GET", "/tenants", limit=limit, cursor=cursor)
    print_rows(answer, "tenants", as_json=as_json)


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
    api = OperatorApi(find_running_stack(data))
    print_fields(api.call("GET", f"/tenants/{find_host_id(tenant)}"), as_json=as_json)
