"""The commands of `afterturn`, put together."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Annotated

import structlog
import typer

from deploy.cli.output import print_notice

#: Each command: where its function, or its group of commands, is.
COMMANDS = {
    "up": "deploy.cli.up:up_command",
    "ingest": "deploy.cli.ingest:ingest_command",
    "recall": "deploy.cli.recall:recall_command",
    "recall-check": "deploy.cli.recall_check:recall_check_command",
    "unit": "deploy.cli.unit:unit_app",
    "bank": "deploy.cli.bank:bank_app",
    "profile": "deploy.cli.profile:profile_command",
    "status": "deploy.cli.status:status_command",
    "jobs": "deploy.cli.jobs:jobs_app",
    "gateway": "deploy.cli.gateway:gateway_app",
    "audit": "deploy.cli.audit:audit_app",
    "keys": "deploy.cli.keys:keys_app",
    "quota": "deploy.cli.quota:quota_app",
    "check": "deploy.cli.check:check_app",
    "replay": "deploy.cli.replay:replay_command",
    "extract": "deploy.cli.extract:extract_command",
    "embed": "deploy.cli.extract:embed_command",
    "erase": "deploy.cli.erase:erase_app",
    "maintenance": "deploy.cli.maintenance:maintenance_command",
    "config": "deploy.cli.config:config_command",
    "doctor": "deploy.cli.doctor:doctor_command",
    "demo": "deploy.cli.demo:demo_command",
    "bench": "deploy.cli.bench:bench_command",
    "chaos": "deploy.cli.chaos:chaos_command",
    "generate": "deploy.cli.generate:generate_command",
    "plugin": "deploy.cli.plugin:plugin_app",
    "contract-test": "producers.contract_kit.command:contract_test_command",
}


def build_cli(*names: str) -> typer.Typer:
    """Return the command line with these commands, or with all; only what is named is imported."""
    app = typer.Typer(
        name="afterturn",
        help="The memory pipeline for AI agents: durable when a turn ends, at hand when the next begins.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="markdown",
        # A traceback with locals would show keys and texts.
        pretty_exceptions_enable=False,
    )
    app.callback()(_configure_output)
    for name in names or COMMANDS:
        module, _, attribute = COMMANDS[name].partition(":")
        command = getattr(import_module(module), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def build_requested_cli(arguments: Sequence[str]) -> typer.Typer:
    """Return the command line with what these arguments ask for; ends with status 2 where they are no text."""
    if any(_has_surrogates(argument) for argument in arguments):
        print_notice("what follows a command must be UTF-8")
        sys.exit(2)
    return build_cli(*(name for name in arguments[:1] if name in COMMANDS))


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
