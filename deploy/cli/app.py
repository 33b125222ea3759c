"""The command line of `afterturn`, built from the table of all commands (`data/commands.toml`)."""

import os
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import structlog
import typer

from deploy.cli.remote_options import NAMED, RemoteOptions
from deploy.notices import print_notice


class Distribution(NamedTuple):
    """A distribution beside this one: a package of it, and the line that installs it."""

    package: str
    install: str


LAB = Distribution("deploy.lab", "pip install --find-links wheels afterturn-lab")
KIT = Distribution("producers.contract_kit", "pip install --find-links wheels memory-plugin-kit")


class Command(NamedTuple):
    """A command, or a group of commands: where its function is in `deploy.cli`, its line in the overview and its panel.

    `hands_on`: it passes all its arguments, `--help` included, to another program. `needs`: the distribution that has
    what it runs.
    """

    place: str
    help: str
    hands_on: bool = False
    needs: Distribution | None = None
    panel: str = ""


#: Settings that make typer pass all arguments to a command unparsed.
HANDED_ON: Mapping[str, Any] = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


_NEEDED = {"lab": LAB, "kit": KIT}


def _read_commands() -> Iterator[tuple[str, Command]]:
    told = tomllib.loads((Path(__file__).parent / "data" / "commands.toml").read_text(encoding="utf-8"))
    for panel, commands in told.items():
        for name, one in commands.items():
            needs = _NEEDED[one.pop("needs")] if "needs" in one else None
            yield name, Command(**one, needs=needs, panel=panel)


#: Every command. The overview shows these lines and imports no command.
COMMANDS: Mapping[str, Command] = dict(_read_commands())


#: Global options that are followed by a value.
WITH_VALUE = frozenset({"--url", "--key", "--key-file", "--context"})


def build_cli(*names: str) -> typer.Typer:
    """Return the command line with the named commands (none named: all), and import only their modules.

    Exits 2 where the distribution that a command needs is not installed.
    """
    app = _create_app()
    for name in names or COMMANDS:
        _check_installed(name)
        module, _, attribute = COMMANDS[name].place.partition(":")
        command = getattr(import_module(f"deploy.cli.{module}"), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, help=COMMANDS[name].help)
        else:
            settings = dict(HANDED_ON) if COMMANDS[name].hands_on else None
            app.command(name, context_settings=settings)(command)
    return app


def build_requested_cli(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> typer.Typer:
    """Return the command line with the command that these arguments name; exits 2 when they are not UTF-8.

    When they name no command, the overview is built without imports. For shell completion, the line is read from the
    environment.
    """
    if any(_has_surrogates(argument) for argument in arguments):
        print_notice("what follows a command must be UTF-8")
        sys.exit(2)
    line = environment.get("_TYPER_COMPLETE_ARGS") or environment.get("COMP_WORDS") or ""
    named = _find_command([*arguments, *line.split()[1:]])
    return build_cli(named) if named else _build_overview()


def _find_command(arguments: Sequence[str]) -> str | None:
    """Return the command that these arguments begin with, after the global options; None where they name none."""
    words = iter(arguments)
    for word in words:
        if word in WITH_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            return word if word in COMMANDS else None
    return None


def _check_installed(name: str) -> None:
    needs = COMMANDS[name].needs
    if needs is not None and find_spec(needs.package) is None:
        print_notice(f"`afterturn {name}` comes with a package of its own: {needs.install}")
        sys.exit(2)


def _create_app() -> typer.Typer:
    app = typer.Typer(
        name="afterturn",
        help="The memory pipeline for AI agents: durable when a turn ends, recalled when the next begins.",
        no_args_is_help=True,
        rich_markup_mode="markdown",
        # A traceback with locals would show keys and texts.
        pretty_exceptions_enable=False,
    )
    app.callback()(_configure_output)
    return app


def _build_overview() -> typer.Typer:
    """Return a command line for `--help` alone: every command's name and line, none of which can be run."""
    app = _create_app()
    for name, command in COMMANDS.items():
        app.command(name, help=command.help, rich_help_panel=command.panel)(_run_nothing)
    return app


def _run_nothing() -> None:
    raise AssertionError("a command that is named is imported")


def _has_surrogates(argument: str) -> bool:
    """Return whether an argument holds lone surrogates: bytes that were not valid UTF-8."""
    return any("\ud800" <= sign <= "\udfff" for sign in argument)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer hands it over so
    if wanted:
        print(version("afterturn"))
        raise typer.Exit


def _configure_output(
    *,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="URL of a remote service; needs --key, --key-file or a key in client.key."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", help="API key for --url; visible to other users in the process list, so prefer --key-file."
        ),
    ] = None,
    key_file: Annotated[Path | None, typer.Option(metavar="FILE", help="Read the key for --url from a file.")] = None,
    context: Annotated[
        str | None,
        typer.Option(
            "--context", metavar="NAME", help="Use the service saved under this name (see `afterturn context list`)."
        ),
    ] = None,
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """Store the global options, and send logs to standard error.

    A callback also makes typer keep the name of a command line's only command.
    """
    if url is None and (key is not None or key_file is not None):
        raise typer.BadParameter("--key and --key-file go with --url; a saved service (--context) has its own key")
    if (url is not None and context is not None) or (key is not None and key_file is not None):
        raise typer.BadParameter("give --url or --context, --key or --key-file: one of each two")
    NAMED.set(RemoteOptions(url, key, key_file, context))
    structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))
