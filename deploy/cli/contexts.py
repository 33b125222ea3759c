"""`afterturn context`: named remote services, each with URL and API key, in a file that only the user can read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import platformdirs
import typer
from afterturn_client.errors import InvalidRequestError
from afterturn_client.transport import check_base_url, check_way
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_serializer

from deploy.cli import name_arguments
from deploy.cli.key_input import read_key
from deploy.cli.options import JsonOption, create_group
from deploy.cli.output import create_console, exit_with, print_json
from deploy.local.private_files import write_private
from deploy.notices import print_notice, replace_unprintable
from deploy.tables import ResultTable

FILE = "contexts.json"

context_app = create_group()
NameArgument = Annotated[
    str, typer.Argument(parser=name_arguments.parse_name, metavar="NAME", help="Name of the saved service.")
]


class ServiceContext(BaseModel):
    """A remote service: its API's URL and the key that commands send."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    key: SecretStr
    allow_http: bool = False

    @field_serializer("key", when_used="json")
    def _reveal_secret(self, key: SecretStr) -> str:
        return key.get_secret_value()


class Contexts(BaseModel):
    """All saved services, and the name of the current one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    current: str | None = None
    contexts: Mapping[str, ServiceContext] = Field(default_factory=dict)


def read_contexts() -> Contexts:
    """Return the contexts of the user's file; exits 2 when it cannot be read."""
    path = _find_file()
    try:
        return Contexts.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Contexts()
    except (OSError, UnicodeDecodeError, ValidationError) as error:  # the error's text would quote keys
        raise exit_with(f"{path} cannot be read ({type(error).__name__})", 2) from None


def find_context(name: str) -> ServiceContext:
    """Return the context of this name; exits 2 when there is none."""
    known = read_contexts().contexts
    if name not in known:
        there = f"there are {', '.join(sorted(known))}" if known else "make one with `afterturn context add`"
        raise exit_with(f"there is no context {name!r}; {there}", 2)
    return known[name]


@context_app.command("add")
def add_command(
    name: NameArgument,
    *,
    url: Annotated[str, typer.Option(metavar="URL", help="URL of the API: https://memory.example.")],
    key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File that holds the key (default: standard input).")
    ] = None,
    allow_http: Annotated[
        bool, typer.Option("--allow-http", help="Allow plain http to another machine; the key travels unencrypted.")
    ] = False,
) -> None:
    """Save a service's URL and key under a name; the first one saved becomes the current one.

    **Example:** `afterturn context add prod --url https://memory.example < key`
    """
    try:
        check_way(check_base_url(url), allow_http=allow_http)
    except InvalidRequestError as error:
        raise exit_with(f"{replace_unprintable(url.rpartition('@')[2])} cannot be kept: {error}", 2) from None
    known = read_contexts()
    made = ServiceContext(url=url.rstrip("/"), key=SecretStr(_read_key(key_file)), allow_http=allow_http)
    _write_contexts(Contexts(current=known.current or name, contexts={**known.contexts, name: made}))
    print_notice(f"context {name} is kept" + ("" if known.current else " and used from now on"))


@context_app.command("use")
def use_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A saved name, or `local` for this machine.")],
) -> None:
    """Make this service the current one; `local` returns to this machine's stack or settings.

    `--data`, `--url` and `--context` of a command take precedence.

    **Example:** `afterturn context use prod`
    """
    if name != "local":
        find_context(name)
    _write_contexts(read_contexts().model_copy(update={"current": None if name == "local" else name}))


@context_app.command("list")
def list_command(*, as_json: JsonOption = False) -> None:
    """List saved services without their keys; `*` marks the current one.

    **Example:** `afterturn context list`
    """
    known = read_contexts()
    if as_json:
        shown = [
            {"name": name, "url": one.url, "current": name == known.current} for name, one in known.contexts.items()
        ]
        print_json({"contexts": shown})
        return
    table = ResultTable("", "name", "url")
    for name, one in sorted(known.contexts.items()):
        table.add_values("*" if name == known.current else "", name, one.url)
    create_console().print(table)


@context_app.command("remove")
def remove_command(name: NameArgument) -> None:
    """Remove a saved service and its key.

    **Example:** `afterturn context remove prod`
    """
    find_context(name)
    known = read_contexts()
    left = {other: one for other, one in known.contexts.items() if other != name}
    _write_contexts(Contexts(current=None if known.current == name else known.current, contexts=left))


def _find_file() -> Path:
    return platformdirs.user_config_path("afterturn") / FILE


def _write_contexts(contexts: Contexts) -> None:
    path = _find_file()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, contexts.model_dump_json(indent=2) + "\n")
    except OSError as error:
        raise exit_with(f"{path} cannot be written ({type(error).__name__})", 2) from None


def _read_key(file: Path | None) -> str:
    """Return the key, one word, as a header holds it; exits 2 when there is none."""
    key = read_key(file, "The key")
    if len(key.split()) != 1:
        raise exit_with("the key must be one word on one line", 2)
    return key
