"""Notices of long work: lines on standard error for the person who started it."""

import sys
from collections.abc import Callable

#: Takes one notice. Work that may be long is given one, so that a test or another caller can collect what it says.
Say = Callable[[str], None]


def print_notice(line: str) -> None:
    """Print a notice on standard error."""
    print(f"afterturn: {replace_unprintable(line)}", file=sys.stderr, flush=True)


def replace_unprintable(text: str) -> str:
    """Return the text with terminal control characters replaced; line ends are kept."""
    return "".join(sign if sign.isprintable() or sign == "\n" else "\N{REPLACEMENT CHARACTER}" for sign in text)


def clean_line(text: str) -> str:
    """Return the text as one line: control characters are replaced, line ends, too."""
    return replace_unprintable(text).replace("\n", "\N{REPLACEMENT CHARACTER}")
