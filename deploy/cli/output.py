"""Results of commands, on standard output, and their exits; notices are deploy.notices."""

import json
import sys
from collections.abc import Mapping
from typing import Any

import typer
from rich.console import Console

from deploy.notices import print_notice

#: Width without a terminal, in columns.
PIPE_WIDTH = 400


def print_json(value: Mapping[str, Any]) -> None:
    """Print one line of JSON in ASCII, so that no character in it can end the line."""
    print(json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(", ", ": ")), flush=True)


def exit_with(line: str, status: int) -> typer.Exit:
    """Print a message and return the exit to raise."""
    print_notice(line)
    return typer.Exit(status)


def create_console() -> Console:
    """Return the console of human-readable results; texts are not read as markup.

    Output to a pipe has unlimited width, so that nothing is cut off.
    """
    return Console(markup=False, highlight=False, emoji=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)
