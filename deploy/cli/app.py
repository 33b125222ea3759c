"""The commands of `afterturn`, put together."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import version
from types import FrameType
from typing import Annotated, Any

import structlog
import typer

from deploy.cli.printing import say

#: The exit status of what was interrupted, as shells have it.
INTERRUPTED = 130
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
}


def build(*names: str) -> typer.Typer:
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
    app.callback()(_root)
    for name in names or COMMANDS:
        module, _, attribute = COMMANDS[name].partition(":")
        command = getattr(import_module(module), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def main() -> None:
    """Run the command line; exits 0 when what was asked holds, 1 when not, 2 for wrong usage or no stack."""
    if any(_not_utf8(argument) for argument in sys.argv[1:]):
        say("what follows a command must be UTF-8")
        sys.exit(2)
    with _left_at_once():
        command = build(*(name for name in sys.argv[1:2] if name in COMMANDS))
    with suppress(KeyboardInterrupt):  # before the command has it for its own
        command()
    sys.exit(INTERRUPTED)


@contextmanager
def _left_at_once() -> Iterator[None]:
    """Have Ctrl-C end the process while commands are imported; from then on it is the command's.

    Nothing was begun that is to be cleaned up, and an exception that is raised amid imports may be swallowed there.
    A polite end, or a terminal that goes away, is as Ctrl-C is; `up` and `nohup` know better.
    """
    later: dict[int, Callable[[int, FrameType | None], Any]] = {
        number: _interrupt for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) == signal.SIG_DFL
    }
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        later[signal.SIGINT] = signal.default_int_handler
    for number in later:
        signal.signal(number, lambda *_: os._exit(INTERRUPTED))
    yield
    for number, handler in later.items():
        signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as of a job in a shell's background
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


def _not_utf8(argument: str) -> bool:
    """Say whether Python kept bytes of an argument as lone surrogates: no name, text or file of ours may hold them."""
    return any("\ud800" <= sign <= "\udfff" for sign in argument)


def _say_version(wanted: bool) -> None:  # noqa: FBT001 - typer hands it over so
    if wanted:
        print(version("afterturn"))
        raise typer.Exit


def _root(
    *,
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_say_version, help="Print the version.")
    ] = False,
) -> None:
    """Make a single command keep its name, which typer would drop; keep what is logged apart from answers."""
    structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))
