"""What commands print: answers on standard output, everything else on standard error."""

import json
import sys
from collections.abc import Mapping
from typing import Any

import typer
from rich.console import Console

#: Columns when nobody's terminal sets them.
PIPE_WIDTH = 400


def say(line: str) -> None:
    """Tell a person something, on standard error."""
    print(f"afterturn: {printable(line)}", file=sys.stderr, flush=True)


def answer(value: Mapping[str, Any]) -> None:
    """Print the one line of `--json`: ASCII, so that nothing in it can be taken for the end of a line."""
    print(json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(", ", ": ")), flush=True)


def ended(line: str, status: int) -> typer.Exit:
    """Say why it ends here; raise what is returned."""
    say(line)
    return typer.Exit(status)


def printable(text: str) -> str:
    """Return the text with every sign that could steer a terminal replaced; line ends are kept."""
    return "".join(sign if sign.isprintable() or sign == "\n" else "\N{REPLACEMENT CHARACTER}" for sign in text)


def console() -> Console:
    """Return where answers for people go; texts are shown as they are, not read as markup.

    What is not a terminal is as wide as it needs to be: nothing is cut off in a pipe.
    """
    return Console(markup=False, highlight=False, emoji=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)
