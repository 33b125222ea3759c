"""Finds names written in lower case: only unambiguous ones from the lists.

Where a fact's opening phrase expects a name, one of lists that a message would not show is found, too: "i live in
leeds", "my wife sarah".
"""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cache

from store.text.rules.gazetteer import name_list, word_list
from store.text.rules.model import MentionKind, TextSpan
from store.text.rules.tokens import Token
from store.text.rules.vocabulary import (
    everyday_words,
    is_family_name,
    is_given_name,
    is_word,
    known_lengths,
    known_places,
)

_BEFORE_PLACE = frozenset({"in", "to", "from", "near"})
# Places that are words, too: without a capital they are the words.
_LOW_WORDS = frozenset(["split", "cork", "turkey", "phoenix", "buffalo", "orlando", "york", "chad", "guinea"])
_SHORTEST = 4

Found = tuple[TextSpan, MentionKind]


def find_lower_case_names(found: Sequence[Token], taken: frozenset[int]) -> Iterator[Found]:
    """Yield names in lower case: places in every message, others where the message begins in lower case.

    Words that start at a character in `taken` are part of another name already.
    """
    if not found:
        return
    casual, place, listed = found[0].text.islower(), 0, _listed_beginnings()
    while place < len(found):
        token, count = found[place], 1
        if token.low in listed and token.text[0].islower() and token.start not in taken:
            count, kind = _name_at(found, place, casual=casual)
            last = found[place + count - 1]
            if kind is not None:
                yield TextSpan(token.start, last.start + len(last.bare)), kind
        place += count


@cache
def _listed_beginnings() -> frozenset[str]:
    """Return the first words of all names that are looked for here, so that most words cost one look-up."""
    people = frozenset(low for low in word_list("given_names") if not is_word(low))
    return people | known_lengths().keys() | known_places() | name_list("organisations")


def _name_at(found: Sequence[Token], place: int, *, casual: bool) -> tuple[int, MentionKind | None]:
    """Return how many words the name at `place` has and its kind; one word and None where there is none."""
    token = found[place]
    if token.low in known_lengths() and (count := _place_length(found, place)):
        return count, MentionKind.PLACE
    if token.low in known_places() and _is_place(found, place, casual=casual):
        return 1, MentionKind.PLACE
    if is_given_name(token.low) and (casual or _is_addressed(found, place)) and _is_certain(token):
        after = found[place + 1] if place + 1 < len(found) else None
        named = after is not None and after.gap == " " and is_family_name(after.low) and after.text.islower()
        return 1 + (named and _is_certain(found[place + 1])), MentionKind.PERSON
    organised = casual and token.low in name_list("organisations") and _is_certain(token)
    return 1, MentionKind.ORGANISATION if organised else None


def _is_certain(token: Token) -> bool:
    return len(token.low) >= _SHORTEST and not is_word(token.low)


def _place_length(found: Sequence[Token], place: int) -> int:
    """Return how many words the known place that begins here has: "new york"; 0 if none begins here."""
    for count in known_lengths()[found[place].low]:
        parts = found[place : place + count]
        lows = [part.low for part in parts]
        near = len(parts) == count and all(part.gap == " " and part.text[0].islower() for part in parts[1:])
        if near and " ".join(lows) in known_places() and any(_is_certain(part) for part in parts):
            return count
    return 0


def _is_place(found: Sequence[Token], place: int, *, casual: bool) -> bool:
    token, before = found[place], found[place - 1] if place else None
    if before is not None and before.low in _BEFORE_PLACE and token.gap == " ":
        return token.low not in _LOW_WORDS and token.low not in everyday_words()
    return casual and token.low not in _LOW_WORDS and not is_given_name(token.low) and _is_certain(token)


def _is_addressed(found: Sequence[Token], place: int) -> bool:
    """Return whether the word before says that a person comes: "call maria"."""
    before = found[place - 1] if place and found[place].gap == " " else None
    return before is not None and (before.low in word_list("people", "meets") or before.low in {"call", "with"})


#: Most words of a name that is looked for.
_MOST_WORDS = 3
_WORD = re.compile(r"[^\W\d_](?:[\w'\u2019-]{0,30}\w)?")
_SHORTEST_VALUE = 3
# "a dog called biscuit": behind "called", an animal has any name; it ends its clause.
_CALLED = re.compile(r"\b(?:called|named)\s*$", re.IGNORECASE)
_CLAUSE_ENDS = re.compile(r"\s*(?:$|[.,!?;:)\n]|(?:and|but|who|who's|lol|last|now|from)\b)")
# "my landlord is mr. smith"
_TITLED = re.compile(r"(?:mr|mrs|ms|dr|prof)\.? [^\W\d_][\w'\u2019-]{1,24}", re.IGNORECASE)
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
    if titled := _TITLED.match(value):
        return titled.group()
    low = found.group().lower()
    ends = _CLAUSE_ENDS.match(value, found.end()) is not None
    if len(low) >= _SHORTEST_VALUE and is_given_name(low) and not is_word(low):
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
