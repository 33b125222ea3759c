"""The commands of `afterturn`, put together."""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, NamedTuple

import structlog
import typer

from deploy.cli.output import print_notice


class Command(NamedTuple):
    """Where a command's function, or its group of commands, is, and its line of the overview."""

    place: str
    help: str


#: Every command. The overview shows these lines and imports no command.
COMMANDS: Mapping[str, Command] = {
    "up": Command(
        "deploy.cli.up:up_command",
        "Start PostgreSQL, Valkey, the API and the workers, and keep them running until Ctrl-C.",
    ),
    "api": Command(
        "deploy.cli.processes:api_command",
        "Serve the API until SIGTERM or Ctrl-C, on the PostgreSQL and Redis of the settings.",
    ),
    "worker": Command(
        "deploy.cli.processes:worker_command",
        "Work on what the ledger holds until SIGTERM or Ctrl-C, on the PostgreSQL and Redis of the settings.",
    ),
    "db": Command(
        "deploy.cli.db:db_app",
        "Set up the PostgreSQL of a service: roles, extension, schema.",
    ),
    "ingest": Command(
        "deploy.cli.ingest:ingest_command",
        "Remember a file of conversations, or a document. Running it twice changes nothing.",
    ),
    "recall": Command(
        "deploy.cli.recall:recall_command",
        "Ask the running stack what it remembers, best first.",
    ),
    "recall-check": Command(
        "deploy.cli.recall_check:recall_check_command",
        "Compare the search by meaning with an exact one, on what the running stack has stored.",
    ),
    "unit": Command(
        "deploy.cli.unit:unit_app",
        "Look at one memory closely: where it comes from, what was drawn from it. Correct it, pin it, or forget it.",
    ),
    "bank": Command(
        "deploy.cli.bank:bank_app",
        "Say what a bank is to be like.",
    ),
    "profile": Command(
        "deploy.cli.profile:profile_command",
        "Tell what is known of a person: facts that hold, since when, how often stated, and the turn each comes from.",
    ),
    "status": Command(
        "deploy.cli.status:status_command",
        "Show every stage of the running stack: what is pending, running, done, skipped, unknown and dead.",
    ),
    "jobs": Command(
        "deploy.cli.jobs:jobs_app",
        "What is still to be done, failed or is unknown: look, try again, drop, wait.",
    ),
    "gateway": Command(
        "deploy.cli.gateway:gateway_app",
        "Memory Gateways: set whose turns go where; list deliveries that failed or are unknown, settle or retry them.",
    ),
    "audit": Command(
        "deploy.cli.audit:audit_app",
        "Read the call audit: every call at a door and every operator's command. It holds no content.",
    ),
    "keys": Command(
        "deploy.cli.keys:keys_app",
        "Create, list, rotate and revoke keys.",
    ),
    "quota": Command(
        "deploy.cli.quota:quota_app",
        "Set and show quotas.",
    ),
    "check": Command(
        "deploy.cli.check:check_app",
        "Try what is promised.",
    ),
    "replay": Command(
        "deploy.cli.replay:replay_command",
        "Replay the event log beside the live tables and compare them, row for row; the service goes on meanwhile.",
    ),
    "extract": Command(
        "deploy.cli.extract:extract_command",
        "Have turns read by a version of the extractor that has not read them yet, while the service goes on.",
    ),
    "embed": Command(
        "deploy.cli.extract:embed_command",
        "Embed what has no vector of the running stack's sentence model, as after it was started with another.",
    ),
    "erase": Command(
        "deploy.cli.erase:erase_app",
        "Erase for good: from the log, from every table, from work in progress. The receipt says what was reached.",
    ),
    "maintenance": Command(
        "deploy.cli.maintenance:maintenance_command",
        "Run maintenance now: what workers do by themselves every few seconds to an hour, once for all of them.",
    ),
    "config": Command(
        "deploy.cli.config:config_command",
        "Show every setting in force and where it came from: default, file or environment. Secrets are masked.",
    ),
    "doctor": Command(
        "deploy.cli.doctor:doctor_command",
        "Examine servers, versions, schema, log, model, disk and permissions; each line says ok, warn or fail.",
    ),
    "demo": Command(
        "deploy.cli.demo:demo_command",
        "Play a household's talk into a real stack of its own, ask about it, and show how it was done.",
    ),
    "bench": Command(
        "deploy.cli.bench:bench_command",
        "Measure the product beside its floor, in the same run and on the same server.",
    ),
    "chaos": Command(
        "deploy.cli.chaos:chaos_command",
        "Send turns, documents and directives while everything fails, then count what was lost or done twice.",
    ),
    "generate": Command(
        "deploy.cli.generate:generate_command",
        "Write a made-up history of every family of events into the running stack, in bulk.",
    ),
    "plugin": Command(
        "deploy.cli.plugin:plugin_app",
        "Move memories to a memory plugin (contract v1), and back.",
    ),
    "contract-test": Command(
        "producers.contract_kit.command:contract_test_command",
        "Hold a memory plugin against every clause of contract v1, over HTTP.",
    ),
}


def build_cli(*names: str) -> typer.Typer:
    """Return the command line with these commands, or with all; only what is named is imported."""
    app = _create_app()
    for name in names or COMMANDS:
        module, _, attribute = COMMANDS[name].place.partition(":")
        command = getattr(import_module(module), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def build_requested_cli(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> typer.Typer:
    """Return the command line with what these arguments ask for; ends with status 2 where they are no text.

    Where they name no command, they ask for the overview, or mistype: nothing is imported for it. A shell that
    completes a line has put that line into the environment.
    """
    if any(_has_surrogates(argument) for argument in arguments):
        print_notice("what follows a command must be UTF-8")
        sys.exit(2)
    line = environment.get("_TYPER_COMPLETE_ARGS") or environment.get("COMP_WORDS") or ""
    named = [word for word in (*arguments, *line.split()) if word in COMMANDS]
    return build_cli(named[0]) if named else _build_overview()


def _create_app() -> typer.Typer:
    app = typer.Typer(
        name="afterturn",
        help="The memory pipeline for AI agents: durable when a turn ends, at hand when the next begins.",
        no_args_is_help=True,
        rich_markup_mode="markdown",
        # A traceback with locals would show keys and texts.
        pretty_exceptions_enable=False,
    )
    app.callback()(_configure_output)
    return app


def _build_overview() -> typer.Typer:
    """Return the command line with every command's name and line, of which none can be run."""
    app = _create_app()
    for name, command in COMMANDS.items():
        app.command(name, help=command.help)(_run_nothing)
    return app


def _run_nothing() -> None:
    raise AssertionError("a command that is named is imported")


def _has_surrogates(argument: str) -> bool:
    """Say whether Python kept bytes of an argument as lone surrogates: no name, text or file of ours may hold them."""
    return any("\ud800" <= sign <= "\udfff" for sign in argument)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer hands it over so
    if wanted:
        print(version("afterturn"))
        raise typer.Exit


def _configure_output(
    *,
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """Make a single command keep its name, which typer would drop; keep what is logged apart from answers."""
    structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))
