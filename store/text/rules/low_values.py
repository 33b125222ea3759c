"""Finds names without a capital where a fact's opening phrase expects one: "i live in leeds", "my wife sarah". Pure."""

import re
from collections.abc import Set as AbstractSet

from store.text.rules.gazetteer import name_list, word_list
from store.text.rules.vocabulary import everyday_words, is_given_name, is_word, known_places

#: Most words of a name that is looked for.
_MOST_WORDS = 3
_WORD = re.compile(r"[^\W\d_](?:[\w'\u2019-]{0,30}\w)?")
_SHORTEST = 3
# "a dog called biscuit": behind "called", an animal has any name; it ends its clause.
_CALLED = re.compile(r"\b(?:called|named)\s*$", re.IGNORECASE)
_CLAUSE_ENDS = re.compile(r"\s*(?:$|[.,!?;:)\n]|(?:and|but|who|who's|lol|last|now|from)\b)")
_NO_NAME = frozenset(
    {"me", "us", "him", "her", "it", "them", "you", "back", "off", "out", "yesterday", "today", "again"}
)


def find_low_place(value: str) -> str:
    """Return the known place at the beginning of a value in lower case; empty if there is none, or it is a word."""
    return _find_listed(value, known_places())


def find_low_employer(value: str) -> str:
    """Return the known organisation at the beginning of a value in lower case; empty if there is none."""
    return _find_listed(value, name_list("organisations"))


def find_low_name(opening: str, value: str) -> str:
    """Return the name in lower case behind an opening phrase that names a person or an animal; empty if none."""
    found = _WORD.match(value)
    if found is None:
        return ""
    low = found.group().lower()
    ends = _CLAUSE_ENDS.match(value, found.end()) is not None
    if len(low) >= _SHORTEST and is_given_name(low) and not is_word(low):
        return found.group()
    of_animal = not word_list("people", "animal").isdisjoint(opening.lower().split())
    return found.group() if of_animal and ends and _CALLED.search(opening) and low not in _NO_NAME else ""


def _find_listed(value: str, known: AbstractSet[str]) -> str:
    words = list[re.Match[str]]()
    for found in _WORD.finditer(value[:80]):
        if len(words) == _MOST_WORDS or value[words[-1].end() if words else 0 : found.start()].strip(" "):
            break
        words.append(found)
    for count in range(len(words), 0, -1):
        name = value[: words[count - 1].end()]
        low = name.lower()
        if low in known and (count > 1 or not (is_word(low) or low in everyday_words())):
            return name
    return ""
