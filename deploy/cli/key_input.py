"""Reads the key that a command is given; it is never an argument, which other processes could see."""

import sys
from pathlib import Path

import typer

from deploy.cli.output import exit_with

#: Longest key in characters; a longer input is not a key, and not read to its end.
LONGEST_KEY = 4096


def read_key(file: Path | None, prompt: str) -> str:
    """Return the key, one line, from the file, by a prompt or from standard input; exits 2 when there is none."""
    try:
        said = _read_input(file, prompt)
    except (OSError, UnicodeDecodeError) as error:
        raise exit_with(f"the key cannot be read ({type(error).__name__})", 2) from None
    key = said.strip()
    if not key or len(said) > LONGEST_KEY or len(key.splitlines()) != 1:
        raise exit_with(f"the key must be one line of at most {LONGEST_KEY} characters", 2)
    return key


def _read_input(file: Path | None, prompt: str) -> str:
    if file is not None:
        with file.open(encoding="utf-8") as opened:
            return opened.read(LONGEST_KEY + 1)
    if sys.stdin.isatty():
        return str(typer.prompt(prompt, hide_input=True, err=True))
    return sys.stdin.read(LONGEST_KEY + 1)
