"""`afterturn config`: the settings in force, and where each came from."""

from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.options import JsonOption
from deploy.cli.output import create_console, print_json
from deploy.cli.running_stack import read_loaded_settings
from deploy.notices import print_notice
from deploy.settings import find_settings_without_effect
from deploy.settings_listing import list_settings
from deploy.tables import ResultTable


def config_command(
    *,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A YAML or JSON file (default: AFTERTURN_CONFIG).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show every setting in force and its origin: default, file or environment. Secrets are masked.

    A setting `api.port` is the variable `AFTERTURN_API__PORT`, or `port:` below `api:` in the file.

    **Example:** `AFTERTURN_API__PORT=9000 afterturn config`
    """
    loaded = read_loaded_settings(config)
    shown = {key: (value, loaded.origins.get(key, "default")) for key, value in list_settings(loaded.settings)}
    if loaded.ignored:
        print_notice(f"not settings, ignored: {', '.join(loaded.ignored)}")
    for key, why in find_settings_without_effect(loaded).items():
        print_notice(f"{key} changes nothing here: {why}")
    if as_json:
        print_json({"settings": {key: {"value": value, "from": origin} for key, (value, origin) in shown.items()}})
        return
    table = ResultTable("setting", "value", "from")
    for key, (value, origin) in shown.items():
        table.add_values(key, str(value), origin)
    create_console().print(table)
