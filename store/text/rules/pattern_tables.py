"""Tables of rules and patterns in `data/`, whose pieces may also be words (`store/text/pattern_tables.py`).

Such a piece is of the words of lists (`words`, each a list or a section of one), or the keys of the table's `means`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from store.text import pattern_tables
from store.text.pattern_tables import fill_pieces
from store.text.rules.gazetteer import name_list, word_list
from store.text.rules.rule import any_of

_FOLDER = Path(__file__).parent / "data"


class Patterns(pattern_tables.Patterns):
    """The patterns of the table `data/NAME.toml`."""

    def __init__(self, name: str, **pieces: str) -> None:
        super().__init__(_FOLDER / f"{name}.toml", **pieces)


def read_table(name: str) -> dict[str, Any]:
    """Return what the file `data/NAME.toml` holds."""
    return pattern_tables.read_table(_FOLDER / f"{name}.toml")


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
