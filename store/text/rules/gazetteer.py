"""The word lists behind the rules, read once from the files in `data/` when they are first asked for."""

import re
import unicodedata
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "data"
_BETWEEN = re.compile(r"[^\w'\u2019-]+")


@cache
def names(*files: str) -> frozenset[str]:
    """Names that may have several words: separated by commas or lines, compared without case.

    Only words are compared: "AT&T" is "at t", "St. Louis" is "st louis".
    """
    if len(files) > 1:
        return frozenset().union(*(names(file) for file in files))
    rows = _text(files[0]).replace(",", "\n").splitlines()
    return frozenset(name for row in rows if (name := _BETWEEN.sub(" ", row).strip()))


@cache
def words(file: str, section: str | None = None) -> frozenset[str]:
    """Single words: a whole file, or the lines of it that begin with `section:`."""
    found: set[str] = set()
    for line in _text(f"{file}_words" if section else file).splitlines():
        label, colon, rest = line.partition(":")
        if not line.startswith("#") and (section is None or (colon and label == section)):
            found.update((rest if section else line).split())
    return frozenset(found)


def raw(file: str) -> str:
    """Return a list as it is written."""
    return (_FOLDER / f"{file}.txt").read_text(encoding="utf-8")


def _text(file: str) -> str:
    return unicodedata.normalize("NFKC", raw(file)).casefold()
