"""Reads tables of patterns from TOML files: regular expressions, and the pieces that several of them have in common.

In a pattern, `@NAME@` stands for a piece, which may have the pieces above it. Line breaks are no part of a pattern.
"""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

_PIECE = re.compile("@([A-Z_]+)@")


class Patterns:
    """The `patterns` of a table, each an attribute; raises KeyError for a piece that the table lacks."""

    def __init__(self, file: Path, **pieces: str) -> None:
        table = read_table(file)
        for name, told in table.get("pieces", {}).items():
            pieces[name] = fill_pieces(told, pieces)
        vars(self).update((one, re.compile(fill_pieces(told, pieces))) for one, told in table["patterns"].items())

    def __getattr__(self, name: str) -> re.Pattern[str]:
        """Raise AttributeError: the table has no pattern of this name."""
        raise AttributeError(name)


@cache
def read_table(file: Path) -> dict[str, Any]:
    """Return what a file holds."""
    return tomllib.loads(file.read_text(encoding="utf-8"))


def fill_pieces(pattern: str, pieces: Mapping[str, str]) -> str:
    """Return a pattern with the pieces in the place of their names."""
    return _PIECE.sub(lambda found: pieces[found[1]], pattern.replace("\n", ""))
