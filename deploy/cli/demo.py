"""`afterturn demo`: follow turns through the whole pipeline on private real servers."""

import shlex
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from deploy.cli.console import ConsoleUnavailable, create_link
from deploy.cli.output import create_console, exit_with
from deploy.local.stack import Stack

if TYPE_CHECKING:
    from deploy.lab.demo.outcome import DemoOutcome

HOW_TO_KEEP = "Look into this memory in a browser: afterturn demo --keep"


def demo_command(
    *,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep",
            help="Leave servers and memory running, and print a link to the console; Ctrl-C stops all.",
        ),
    ] = False,
) -> None:
    """Store a household's conversations in a private stack, ask questions, and show each step.

    Starts PostgreSQL, Valkey, the API and the workers on free ports in a temporary folder, and removes them. Exits 0
    only if every turn passed every stage, nine of ten questions had evidence among the first five results, and every
    write was readable at once.

    **Example:** `afterturn demo --keep`
    """
    # WHY here: the demo imports the whole product, and `afterturn --help` should not.
    from deploy.lab.demo.data import DemoDataError, load_demo  # noqa: PLC0415
    from deploy.lab.demo.report import render_report  # noqa: PLC0415
    from deploy.lab.demo.run import create_progress_bar, play_demo  # noqa: PLC0415
    from deploy.local.private_stack import PrivateStackError  # noqa: PLC0415

    def show(stack: Stack, outcome: "DemoOutcome") -> None:
        create_console().print(render_report(outcome))
        if keep:
            _keep_running(stack)

    try:
        outcome = play_demo(load_demo(), create_progress_bar(Console(stderr=True)), show)
    except (DemoDataError, PrivateStackError) as error:
        raise exit_with(str(error), 1) from None
    if not keep:
        typer.echo(HOW_TO_KEEP)
    raise typer.Exit(1 if outcome.failures else 0)


def _keep_running(stack: Stack) -> None:
    """Say how to open the console on the stack, and return when Ctrl-C or SIGTERM comes."""
    with _await_stop() as stopped:
        try:
            typer.echo(f"Console (this link signs in once): {create_link(stack)}")
        except ConsoleUnavailable as error:
            typer.echo(str(error), err=True)
        typer.echo(f"Another link: afterturn console --data {shlex.quote(str(stack.api_key_file.parent))}")
        typer.echo("The memory is of this demo alone: choose the bank demo. Ctrl-C stops everything and removes it.")
        while not stopped.wait(1.0):
            pass


@contextmanager
def _await_stop() -> Iterator[threading.Event]:
    """Yield an event that is set by the first Ctrl-C or SIGTERM; a second one interrupts."""
    stopped = threading.Event()
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {one: signal.signal(one, lambda *_: stopped.set()) for one in signals}
    try:
        yield stopped
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
