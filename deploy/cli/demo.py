"""`afterturn demo`: follow turns through the whole pipeline on private real servers."""

import typer
from rich.console import Console

from deploy.cli.output import create_console, exit_with


def demo_command() -> None:
    """Store a household's conversations in a private stack, ask questions, and show each step.

    Starts PostgreSQL, Valkey, the API and the workers on free ports in a temporary folder, and removes them. Exits 0
    only if every turn passed every stage, nine of ten questions had evidence among the first five results, and every
    write was readable at once.
    """
    # WHY here: the demo imports the whole product, and `afterturn --help` should not.
    from deploy.lab.demo.data import DemoDataError, load_demo  # noqa: PLC0415
    from deploy.lab.demo.report import render_report  # noqa: PLC0415
    from deploy.lab.demo.run import create_progress_bar, play_demo  # noqa: PLC0415
    from deploy.local.private_stack import PrivateStackError  # noqa: PLC0415

    try:
        data = load_demo()
        with create_progress_bar(Console(stderr=True)) as progress:
            outcome = play_demo(data, progress)
    except (DemoDataError, PrivateStackError) as error:
        raise exit_with(str(error), 1) from None
    create_console().print(render_report(outcome))
    raise typer.Exit(1 if outcome.failures else 0)
