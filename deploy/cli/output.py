"""What commands print: answers on standard output, everything else on standard error."""

import json
import sys
from collections.abc import Mapping
from typing import Any

import typer
from rich.console import Console

#: Columns where no terminal says how many there are.
PIPE_WIDTH = 400


def print_notice(line: str) -> None:
    """Tell a person something, on standard error."""
    print(f"afterturn: {replace_unprintable(line)}", file=sys.stderr, flush=True)


def print_json(value: Mapping[str, Any]) -> None:
    """Print the one line of `--json`: ASCII, so that nothing in it can be taken for the end of a line."""
    print(json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(", ", ": ")), flush=True)


def exit_with(line: str, status: int) -> typer.Exit:
    """Say why it ends here; raise what is returned."""
    print_notice(line)
    return typer.Exit(status)


def replace_unprintable(text: str) -> str:
    """Return the text with every sign that could steer a terminal replaced; line ends are kept."""
    return "".join(sign if sign.isprintable() or sign == "\n" else "\N{REPLACEMENT CHARACTER}" for sign in text)


def create_console() -> Console:
    """Return where answers for people go; texts are shown as they are, not read as markup.

    What is not a terminal is as wide as it needs to be: nothing is cut off in a pipe.
    """
    return Console(markup=False, highlight=False, emoji=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)
