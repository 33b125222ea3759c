"""The short word lists behind the rules, read once from the files in `data/`."""

import unicodedata
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "data"


@cache
def names(*files: str) -> frozenset[str]:
    """Names that may have several words: separated by commas or lines, compared without case."""
    rows = (row for file in files for row in _text(file).replace(",", "\n").splitlines())
    return frozenset(name for row in rows if (name := row.strip()))


@cache
def words(file: str, section: str | None = None) -> frozenset[str]:
    """Single words: a whole file, or the lines of it that begin with `section:`."""
    found: set[str] = set()
    for line in _text(f"{file}_words" if section else file).splitlines():
        label, colon, rest = line.partition(":")
        if not line.startswith("#") and (section is None or (colon and label == section)):
            found.update((rest if section else line).split())
    return frozenset(found)


def _text(file: str) -> str:
    raw = (_FOLDER / f"{file}.txt").read_text(encoding="utf-8")
    return unicodedata.normalize("NFKC", raw).casefold()
