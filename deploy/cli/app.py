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
    """A command, or a group of commands: where its function is, its panel and its line in the overview.

    `hands_on`: it passes all its arguments, `--help` included, to another program. `needs`: the distribution that has
    what it runs.
    """

    place: str
    panel: str
    help: str
    hands_on: bool = False
    needs: Distribution | None = None


#: Settings that make typer pass all arguments to a command unparsed.
HANDED_ON: Mapping[str, Any] = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


#: Every command. The overview shows these lines and imports no command.
COMMANDS: Mapping[str, Command] = {
    "up": Command(
        "deploy.cli.up:up_command",
        "Run",
        "Run everything on this machine: PostgreSQL, Valkey, the API and workers, until Ctrl-C.",
    ),
    "api": Command(
        "deploy.cli.processes:api_command",
        "Run",
        "Run the API on the configured PostgreSQL and Redis until SIGTERM or Ctrl-C.",
    ),
    "worker": Command(
        "deploy.cli.processes:worker_app",
        "Run",
        "Run worker processes on the configured PostgreSQL and Redis until SIGTERM or Ctrl-C.",
    ),
    "db": Command(
        "deploy.cli.db:db_app",
        "Run",
        "Prepare a PostgreSQL server: create roles, extension and schema; migrate; show the version.",
    ),
    "ingest": Command(
        "deploy.cli.ingest:ingest_command",
        "Memory",
        "Store a file of conversations, or a document. Running it twice changes nothing.",
    ),
    "recall": Command(
        "deploy.cli.recall:recall_command",
        "Memory",
        "Search a bank's memory, best results first.",
    ),
    "unit": Command(
        "deploy.cli.unit:unit_app",
        "Memory",
        "Show one memory with its sources and derived facts; correct, end, pin or forget it.",
    ),
    "banks": Command("deploy.cli.lists:banks_app", "Memory", "List and show the banks that the key reaches."),
    "sessions": Command("deploy.cli.lists:sessions_app", "Memory", "List and show the sessions of a bank."),
    "turns": Command("deploy.cli.lists:turns_app", "Memory", "List and show the turns of a session."),
    "units": Command(
        "deploy.cli.lists:units_app",
        "Memory",
        "List and show the units of a bank: messages, facts, documents' pieces.",
    ),
    "users": Command("deploy.cli.lists:users_app", "Memory", "List and show the users that the key reaches."),
    "bank": Command(
        "deploy.cli.bank:bank_app",
        "Memory",
        "Set the properties of a bank.",
    ),
    "profile": Command(
        "deploy.cli.profile:profile_command",
        "Memory",
        "Show facts about a user: current values, since when, how often stated, and their source turns.",
    ),
    "console": Command(
        "deploy.cli.console:console_command",
        "Memory",
        "Print a link that signs a browser in to the console: it works once, within an hour.",
    ),
    "mcp": Command(
        "deploy.cli.agent_commands:mcp_command",
        "Memory",
        "Serve the memory tools over standard input and output, for MCP clients that start a program.",
        hands_on=True,
    ),
    "hook": Command(
        "deploy.cli.agent_commands:hook_command",
        "Memory",
        "Run a hook of a coding agent: recall beside each prompt, keep each turn.",
        hands_on=True,
    ),
    "hooks": Command(
        "deploy.cli.agent_commands:hooks_command",
        "Memory",
        "Install the hooks into a coding agent's settings, or remove them.",
        hands_on=True,
    ),
    "status": Command(
        "deploy.cli.status:status_command",
        "Operate",
        "Show the work of every stage: pending, running, done, skipped, unknown and dead.",
    ),
    "jobs": Command(
        "deploy.cli.jobs:jobs_app",
        "Operate",
        "List undone, failed and unknown work; requeue, drop or wait for it.",
    ),
    "queue": Command(
        "deploy.cli.queue:queue_app",
        "Operate",
        "Print the access rule of a turn queue; list what waits; show, replay and drop dead letters.",
    ),
    "gateway": Command(
        "deploy.cli.gateway:gateway_app",
        "Operate",
        "Set gateway targets; list, settle and retry deliveries that failed or whose outcome is unknown.",
    ),
    "audit": Command(
        "deploy.cli.audit:audit_app",
        "Operate",
        "Show the call audit: API calls and operators' commands, without content.",
    ),
    "workers": Command("deploy.cli.processes:workers_app", "Operate", "List worker processes."),
    "context": Command(
        "deploy.cli.contexts:context_app",
        "Operate",
        "Save remote services under names, and choose the one that commands use.",
    ),
    "tenants": Command("deploy.cli.tenants:tenants_app", "Operate", "List and show tenants."),
    "keys": Command(
        "deploy.cli.keys:keys_app",
        "Operate",
        "Create, list, rotate and revoke API keys.",
    ),
    "quota": Command(
        "deploy.cli.quota:quota_app",
        "Operate",
        "Set and show quotas of tenants and banks.",
    ),
    "maintenance": Command(
        "deploy.cli.maintenance:maintenance_command",
        "Operate",
        "Run maintenance tasks now instead of waiting for the workers' schedule.",
    ),
    "config": Command(
        "deploy.cli.config:config_command",
        "Operate",
        "Show every setting in force and its origin: default, file or environment. Secrets are masked.",
    ),
    "doctor": Command(
        "deploy.cli.doctor:doctor_command",
        "Operate",
        "Check servers, versions, schema, log, model, disk and permissions: ok, warn or fail, and what to do.",
    ),
    "backfill": Command(
        "deploy.cli.backfill:backfill_command",
        "Data",
        "Bring over memory that light-portal's agents wrote directly into that platform's tables.",
    ),
    "replay": Command(
        "deploy.cli.replay:replay_command",
        "Data",
        "Rebuild the tables from the event log and compare them row for row; swap or repair them.",
    ),
    "extract": Command(
        "deploy.cli.extract:extract_command",
        "Data",
        "Run a newer extractor over turns that it has not processed yet, while the service runs.",
    ),
    "embed": Command(
        "deploy.cli.extract:embed_command",
        "Data",
        "Embed texts that have no vector of the live model, while the service runs.",
    ),
    "embeddings": Command(
        "deploy.cli.embeddings:embeddings_app",
        "Data",
        "Change the sentence model: build its vectors, switch to them, roll back, drop.",
    ),
    "erase": Command(
        "deploy.cli.erase:erase_app",
        "Data",
        "Erase a user, a bank, or something in it permanently, with a receipt of what was and was not reached.",
    ),
    "snapshot": Command(
        "deploy.cli.snapshot:snapshot_app",
        "Data",
        "Export a tenant's memory to a file, import it into another deployment, list what was done.",
    ),
    "memory": Command(
        "deploy.cli.memory:memory_app",
        "Data",
        "Import folders of the file engine of the memory tools, and compare them with this service.",
    ),
    "generate": Command(
        "deploy.cli.generate:generate_command",
        "Data",
        "Write a generated history of every event type into the running stack, in bulk.",
        needs=LAB,
    ),
    "plugin": Command(
        "deploy.cli.plugin:plugin_app",
        "Data",
        "Serve the memory plugin (contract v1); its commands copy memories to a plugin, and back.",
    ),
    "recall-check": Command(
        "deploy.cli.recall_check:recall_check_command",
        "Prove",
        "Compare vector search with an exact search on the stored vectors.",
    ),
    "check": Command(
        "deploy.cli.check:check_app",
        "Prove",
        "Check tenant isolation, and upgrades.",
        needs=LAB,
    ),
    "demo": Command(
        "deploy.cli.demo:demo_command",
        "Prove",
        "Store a household's conversations in a private stack, ask questions, and show each step.",
        needs=LAB,
    ),
    "bench": Command(
        "deploy.cli.bench:bench_command",
        "Prove",
        "Run a benchmark; those of speed are compared with a floor: the bare library calls in the same run.",
        needs=LAB,
    ),
    "chaos": Command(
        "deploy.cli.chaos:chaos_command",
        "Prove",
        "Send turns while processes and servers are killed, then count what was lost or done twice.",
        needs=LAB,
    ),
    "soak": Command(
        "deploy.cli.soak:soak_command",
        "Prove",
        "Load every interface, then check that memory, connections, files and ledger return to their baseline.",
        needs=LAB,
    ),
    "contract-test": Command(
        "deploy.cli.contract_test:contract_test_command",
        "Prove",
        "Test any memory plugin against every clause of contract v1, over HTTP.",
        hands_on=True,
        needs=KIT,
    ),
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
        command = getattr(import_module(module), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
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
