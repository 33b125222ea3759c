"""The table of all commands of `afterturn`, and the command line built from it."""

import os
import sys
from collections.abc import Mapping, Sequence
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


_RUN: Mapping[str, Command] = {
    "up": Command(
        "up:up_command", "Run everything on this machine: PostgreSQL, Valkey, the API and workers, until Ctrl-C."
    ),
    "api": Command(
        "processes:api_command", "Run the API on the configured PostgreSQL and Redis until SIGTERM or Ctrl-C."
    ),
    "worker": Command(
        "processes:worker_app", "Run worker processes on the configured PostgreSQL and Redis until SIGTERM or Ctrl-C."
    ),
    "db": Command(
        "db:db_app", "Prepare a PostgreSQL server: create roles, extension and schema; migrate; show the version."
    ),
}
_MEMORY: Mapping[str, Command] = {
    "ingest": Command(
        "ingest:ingest_command", "Store a file of conversations, or a document. Running it twice changes nothing."
    ),
    "recall": Command("recall:recall_command", "Search a bank's memory, best results first."),
    "unit": Command(
        "unit:unit_app", "Show one memory with its sources and derived facts; correct, end, pin or forget it."
    ),
    "banks": Command("lists:banks_app", "List and show the banks that the key reaches."),
    "sessions": Command("lists:sessions_app", "List and show the sessions of a bank."),
    "turns": Command("lists:turns_app", "List and show the turns of a session."),
    "units": Command(
        "lists:units_app", "List the units of a bank: messages, facts, documents' pieces; `unit show` shows one."
    ),
    "users": Command("lists:users_app", "List and show the users that the key reaches."),
    "bank": Command("bank:bank_app", "Set the properties of a bank."),
    "profile": Command(
        "profile:profile_command",
        "Show facts about a user: current values, since when, how often stated, and their source turns.",
    ),
    "console": Command(
        "console:console_command", "Print a link that signs a browser in to the console: it works once, within an hour."
    ),
    "mcp": Command(
        "agent_commands:mcp_command",
        "Serve the memory tools over standard input and output, for MCP clients that start a program.",
        hands_on=True,
    ),
    "hook": Command(
        "agent_commands:hook_command",
        "Run a hook of a coding agent: recall beside each prompt, keep each turn.",
        hands_on=True,
    ),
    "hooks": Command(
        "agent_commands:hooks_command",
        "Install the hooks into a coding agent's settings, or remove them.",
        hands_on=True,
    ),
}
_OPERATE: Mapping[str, Command] = {
    "status": Command(
        "status:status_command", "Show the work of every stage: pending, running, done, skipped, unknown and dead."
    ),
    "jobs": Command("jobs:jobs_app", "List undone, failed and unknown work; requeue, drop or wait for it."),
    "queue": Command(
        "queue:queue_app", "Print the access rule of a turn queue; list what waits; show, replay and drop dead letters."
    ),
    "gateway": Command(
        "gateway:gateway_app",
        "Set gateway targets; list, settle and retry deliveries that failed or whose outcome is unknown.",
    ),
    "audit": Command("audit:audit_app", "Show the call audit: API calls and operators' commands, without content."),
    "workers": Command("processes:workers_app", "List worker processes."),
    "context": Command(
        "contexts:context_app", "Save remote services under names, and choose the one that commands use."
    ),
    "tenants": Command("tenants:tenants_app", "List and show tenants."),
    "keys": Command("keys:keys_app", "Create, list, rotate and revoke API keys."),
    "quota": Command("quota:quota_app", "Set and show quotas of tenants and banks."),
    "maintenance": Command(
        "maintenance:maintenance_command", "Run maintenance tasks now instead of waiting for the workers' schedule."
    ),
    "config": Command(
        "config:config_command",
        "Show every setting in force and its origin: default, file or environment. Secrets are masked.",
    ),
    "doctor": Command(
        "doctor:doctor_command",
        "Check servers, versions, schema, log, model, disk and permissions: ok, warn or fail, and what to do.",
    ),
}
_DATA: Mapping[str, Command] = {
    "backfill": Command(
        "backfill:backfill_command",
        "Bring over memory that light-portal's agents wrote directly into that platform's tables.",
    ),
    "replay": Command(
        "replay:replay_command",
        "Rebuild the tables from the event log and compare them row for row; swap or repair them.",
    ),
    "extract": Command(
        "extract:extract_command",
        "Run a newer extractor over turns that it has not processed yet, while the service runs.",
    ),
    "embed": Command(
        "extract:embed_command", "Embed texts that have no vector of the live model, while the service runs."
    ),
    "embeddings": Command(
        "embeddings:embeddings_app", "Change the sentence model: build its vectors, switch to them, roll back, drop."
    ),
    "erase": Command(
        "erase:erase_app",
        "Erase a user, a bank, or something in it permanently, with a receipt of what was and was not reached.",
    ),
    "snapshot": Command(
        "snapshot:snapshot_app",
        "Export a tenant's memory to a file, import it into another deployment, list what was done.",
    ),
    "memory": Command(
        "memory:memory_app",
        "Import folders of the file engine of the memory tools, and compare them with this service.",
    ),
    "generate": Command(
        "generate:generate_command",
        "Write a generated history of every event type into the running stack, in bulk.",
        needs=LAB,
    ),
    "plugin": Command(
        "plugin:plugin_app", "Serve the memory plugin (contract v1); its commands copy memories to a plugin, and back."
    ),
}
_PROVE: Mapping[str, Command] = {
    "recall-check": Command(
        "recall_check:recall_check_command", "Compare vector search with an exact search on the stored vectors."
    ),
    "check": Command("check:check_app", "Check tenant isolation, and upgrades.", needs=LAB),
    "demo": Command(
        "demo:demo_command",
        "Store a household's conversations in a private stack, ask questions, and show each step.",
        needs=LAB,
    ),
    "bench": Command(
        "bench:bench_command",
        "Run a benchmark; those of speed are compared with a floor: the bare library calls in the same run.",
        needs=LAB,
    ),
    "chaos": Command(
        "chaos:chaos_command",
        "Send turns while processes and servers are killed, then count what was lost or done twice.",
        needs=LAB,
    ),
    "soak": Command(
        "soak:soak_command",
        "Load every interface, then check that memory, connections, files and ledger return to their baseline.",
        needs=LAB,
    ),
    "contract-test": Command(
        "contract_test:contract_test_command",
        "Test any memory plugin against every clause of contract v1, over HTTP.",
        hands_on=True,
        needs=KIT,
    ),
}
_PANELS = {"Run": _RUN, "Memory": _MEMORY, "Operate": _OPERATE, "Data": _DATA, "Prove": _PROVE}

#: Every command. The overview shows these lines and imports no command.
COMMANDS: Mapping[str, Command] = {
    name: command._replace(panel=panel) for panel, commands in _PANELS.items() for name, command in commands.items()
}


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
