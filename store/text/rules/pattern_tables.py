"""Reads tables of patterns from `data/`: regular expressions, and the pieces that several of them have in common.

In a pattern, `@NAME@` stands for a piece. A piece is a pattern, which may have the pieces above it, the words of lists
(`words`, each a list or a section of one), or the keys of the table's `means`. Line breaks are no part of a pattern.
"""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from store.text.rules.gazetteer import name_list, word_list
from store.text.rules.rule import any_of

_FOLDER = Path(__file__).parent / "data"
_PIECE = re.compile("@([A-Z_]+)@")


@cache
def read_table(name: str) -> dict[str, Any]:
    """Return what the file `data/NAME.toml` holds."""
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


class Patterns:
    """The `patterns` of the table `data/NAME.toml`, each an attribute; raises KeyError for a piece that it lacks."""

    def __init__(self, name: str, **pieces: str) -> None:
        table = read_table(name)
        known = read_pieces(table, pieces)
        vars(self).update((one, re.compile(fill_pieces(told, known))) for one, told in table["patterns"].items())

    def __getattr__(self, name: str) -> re.Pattern[str]:
        """Raise AttributeError: the table has no pattern of this name."""
        raise AttributeError(name)


def read_pieces(table: Mapping[str, Any], known: Mapping[str, str]) -> dict[str, str]:
    """Return the pieces of a table beside those that are known already."""
    pieces = dict(known)
    for name, told in table.get("pieces", {}).items():
        pieces[name] = fill_pieces(told, pieces) if isinstance(told, str) else _list_words(told, table)
    return pieces


def _list_words(told: Mapping[str, Any], table: Mapping[str, Any]) -> str:
    words = [*map(read_words, told.get("words", ())), *(table["means"][one] for one in told.get("means", ()))]
    found = any_of(frozenset[str]().union(*words))
    return found.replace(r"\-", told.get("hyphen", r"\-"))


def read_words(named: str) -> frozenset[str]:
    """Return the words of a list ("organisations"), or of a section of one ("deed plays"); none for no name."""
    file, _, section = named.partition(" ")
    return word_list(file, section) if section else name_list(file) if file else frozenset()


def fill_pieces(pattern: str, pieces: Mapping[str, str]) -> str:
    """Return a pattern with the pieces in the place of their names."""
    return _PIECE.sub(lambda found: pieces[found[1]], pattern.replace("\n", ""))
