"""`afterturn config`: the settings in force, and where each came from."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from pydantic import BaseModel, SecretStr

from deploy.cli.options import JsonOption
from deploy.cli.output import create_console, exit_with, print_json
from deploy.notices import print_notice
from deploy.settings import find_settings_without_effect, load_settings
from deploy.settings_errors import SettingsError
from deploy.tables import ResultTable

MASK = "********"


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
    try:
        loaded = load_settings(config=config)
    except SettingsError as error:
        raise exit_with(f"these settings cannot be used:\n{error}", 2) from None
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


def list_settings(part: BaseModel, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every setting below a part as (dotted key, value fit to be shown)."""
    for name in type(part).model_fields:
        value = getattr(part, name)
        if isinstance(value, BaseModel):
            yield from list_settings(value, f"{above}{name}.")
        else:
            yield above + name, mask_value(value)


def mask_value(value: Any) -> Any:
    """Return a value with secrets masked; of a URL, its password and query."""
    if isinstance(value, SecretStr):
        plain = value.get_secret_value()
        return (_mask_url(plain) if "://" in plain else MASK) if plain else ""
    if isinstance(value, bool | int | float) or value is None:
        return value
    return _mask_url(str(value)) if "://" in str(value) else str(value)


def _mask_url(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return MASK
    login, at, place = parts.netloc.rpartition("@")
    user, colon, _password = login.partition(":")
    if "@" in user or "/" in user or not place or "@" in parts.path:
        return MASK
    query = MASK if parts.query else ""
    return parts._replace(netloc=f"{user}{colon}{MASK if colon else ''}{at}{place}", query=query, fragment="").geturl()
