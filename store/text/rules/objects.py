"""Finds the few words that name a thing or a place behind a verb: "red kettle" of "red kettle at the market"."""

import re

from store.text.rules.gazetteer import word_list
from store.text.rules.pattern_tables import Patterns
from store.text.rules.rule import SPACE
from store.text.rules.vocabulary import is_given_name

_PATTERN = Patterns("object_patterns", SPACE=SPACE)

#: Most words of a thing: what takes more to name is a clause.
MOST_WORDS = 5


def name_object(value: str, *, title: bool = False) -> str:
    """Return the name at the beginning of a value, empty where there is none or it may go on behind its end.

    Titles hold any words: one that may be longer than what is found ("Beauty and the Beast") is none.
    """
    end = _PATTERN.end.search(value)
    name = (value[: end.start()] if end else value).rstrip()
    words = name.lower().split()
    if not 0 < len(words) <= MOST_WORDS or words[-1] in word_list("deed", "nothing"):
        return ""
    if _PATTERN.no_name.match(name) or _PATTERN.second.search(name) or _names_recipient(name):
        return ""
    return "" if end and _goes_on(name, value, end, title=title) else name


def cut_list(value: str) -> str:
    """Return the things that a value begins with: "nuts, eggs and milk" of it, or its first thing alone."""
    found = _PATTERN.items.match(value)
    return found.group() if found else _PATTERN.cut.split(value, maxsplit=1)[0].rstrip()


def split_list(value: str) -> tuple[str, ...]:
    """Return each of the things of a list."""
    return tuple(_PATTERN.between.split(value))


def _names_recipient(name: str) -> bool:
    """Return whether another thing follows a given name: "Kim flowers"."""
    first, *others = name.split()
    return bool(others) and first[0].isupper() and others[0].islower() and is_given_name(first.lower())


def _goes_on(name: str, value: str, end: re.Match[str], *, title: bool) -> bool:
    """Return whether a name in capitals goes on behind its end: "Doctors Without Borders"."""
    word = end.group("word") or ""
    if not word or word.lower().rstrip("s").endswith("day") or not name.rsplit(maxsplit=1)[-1][0].isupper():
        return False
    return (word[0].isupper() and word[0] != "I") or (
        title and _PATTERN.title_goes_on.match(value, end.start()) is not None
    )
