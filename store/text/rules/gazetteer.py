"""The word lists behind the rules, read once from the files in `data/` when they are first asked for."""

import re
import unicodedata
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
    found: set[str] = set()
    for line in _read_list(f"{file}_words" if section else file).splitlines():
        label, colon, rest = line.partition(":")
        if not line.startswith("#") and (section is None or (colon and label == section)):
            found.update((rest if section else line).split())
    return frozenset(found)


def read_list_file(file: str) -> str:
    """Return the text of a list's file."""
    return (_FOLDER / f"{file}.txt").read_text(encoding="utf-8")


def _read_list(file: str) -> str:
    return unicodedata.normalize("NFKC", read_list_file(file)).casefold()
