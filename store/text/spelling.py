"""Matches a misspelt name to a known one. Pure."""

import re
from collections.abc import Iterable

from store.text.rules.vocabulary import is_given_name, known_things
from store.text.terms import split_words

#: Fewest letters of a compared name, and the number from which two letters may differ.
LEAST, LONG = 3, 8
#: Longer names are not compared.
MOST = 24
#: Words of a speaker's name that are compared.
WORDS = 8
_DOUBLED = re.compile(r"(.)\1+")
_SOUNDS = (("ph", "f"), ("ck", "k"), ("c", "k"), ("h", ""), ("ie", "i"), ("y", "i"), ("z", "s"))


def find_meant(name: str, speakers: Iterable[str]) -> str | None:
    """Return the one speaker of whose name a folded name is a misspelling; None where there is none, or several.

    A misspelling has one letter wrong, missing, added or swapped with the next; in a long name two. A known given name
    counts only as a misspelling of one that sounds the same: "Sara" of "Sarah", not "Mario" of "Maria".
    """
    if not may_be_misspelt(name):
        return None
    near = {speaker for speaker in speakers if any(_is_near(name, word) for word in split_words(speaker)[:WORDS])}
    return near.pop() if len(near) == 1 else None


def may_be_misspelt(name: str) -> bool:
    """Return whether a folded name is worth comparing with speakers' names: no known place, thing or firm has it."""
    return LEAST <= len(name) <= MOST and name.isalpha() and name not in known_things()


def count_wrong_letters(one: str, other: str) -> int:
    """Return how many letters must be changed, added, removed or swapped with the next to turn a word into another."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        earlier, before, row = before, row, [i]
        for j, b in enumerate(other, 1):
            cost = min(row[j - 1] + 1, before[j] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, earlier[j - 2] + 1)
            row.append(cost)
    return row[-1]


def _is_near(name: str, word: str) -> bool:
    if not LEAST <= len(word) <= MOST or name == word:
        return False
    if _spell_sound(name) == _spell_sound(word):
        return True
    wrong = 1 + (min(len(name), len(word)) >= LONG)
    if is_given_name(name) or abs(len(name) - len(word)) > wrong or min(len(name), len(word)) == LEAST:
        return False
    return name[0] in word[:2] and count_wrong_letters(name, word) <= wrong


def _spell_sound(name: str) -> str:
    """Return a name in a spelling that names of the same sound share."""
    for spelling, sound in _SOUNDS:
        name = name.replace(spelling, sound)
    return _DOUBLED.sub(r"\1", name).removesuffix("e")
