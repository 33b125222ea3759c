"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

DataOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Data folder of the running stack (default: AFTERTURN_DATA, else the default folder)."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON: one object on one line.")]


def create_group() -> typer.Typer:
    """Return a group of commands, whose line is that of the overview (`deploy/cli/app.py`)."""
    return typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
