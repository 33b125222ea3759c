"""The word lists behind the rules, read once from the files in `data/` when they are first asked for."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "data"
_BETWEEN = re.compile(r"[^\w'\u2019-]+")


@cache
def name_list(*files: str) -> frozenset[str]:
    """Return the names of these files, which may have several words: separated by commas or lines, without case.

    Only words are compared: "AT&T" is "at t", "St. Louis" is "st louis".
    """
    if len(files) > 1:
        return frozenset().union(*(name_list(file) for file in files))
    rows = _read_list(files[0]).replace(",", "\n").splitlines()
    return frozenset(name for row in rows if (name := _BETWEEN.sub(" ", row).strip()))


@cache
def word_list(file: str, section: str | None = None) -> frozenset[str]:
    """Return the single words of a file, or of its lines that begin with `section:`."""
    if section is not None:
        return frozenset[str]().union(*word_groups(file, section))
    lines = (line for line in _read_list(file).splitlines() if not line.startswith("#"))
    return frozenset(word for line in lines for word in line.split())


def word_groups(file: str, section: str) -> Sequence[frozenset[str]]:
    """Return the words of each line of a file that begins with `section:`."""
    return _read_sections(file)[section]


@cache
def _read_sections(file: str) -> Mapping[str, Sequence[frozenset[str]]]:
    found = defaultdict[str, list[frozenset[str]]](list)
    for line in _read_list(f"{file}_words").splitlines():
        label, colon, words = line.partition(":")
        if colon and not label.startswith("#"):
            found[label].append(frozenset(words.split()))
    return found


def read_list_file(file: str) -> str:
    """Return the text of a list's file."""
    return (_FOLDER / f"{file}.txt").read_text(encoding="utf-8")


def _read_list(file: str) -> str:
    return unicodedata.normalize("NFKC", read_list_file(file)).casefold()
