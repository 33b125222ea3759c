"""Tells of which kind a value in a sentence is: a day, a date, a number, a place, a name. Pure, English."""

import re
from collections.abc import Sequence
from typing import Protocol

from store.text.rules.gazetteer import word_list
from store.text.rules.vocabulary import is_given_name, is_word, people_nouns

#: Words before the place of something.
PLACED = word_list("change", "placed")
#: Kinds of which one may be told in place of another, and kinds that count or measure time.
PLACES, COUNTED = frozenset({"name", "other", "place"}), frozenset({"number", "day", "date", "clock"})
_MONTHS, _DAYS, _COUNTS = (word_list("change", kind) for kind in ("month", "day", "count"))
_COUNT = re.compile(r"\d[\d.,:/-]*[a-z]{0,3}")
_GERMAN_LIVING = word_list("change", "living")
_LIVING = people_nouns() | word_list("people", "role") | _GERMAN_LIVING
_TITLES, _JOBS = word_list("people", "title"), word_list("job", "job") | word_list("job", "german_whole")
_GERMAN_JOBS = tuple(word_list("job", "german") | word_list("job", "german_whole"))
_CLOCK = re.compile(r"\d{1,2}[:.]\d\d|\d{1,2}(?:am|pm)|noon|midnight")


class Worded(Protocol):
    """A sentence's words in lower case, and which of them are written as names."""

    @property
    def words(self) -> Sequence[str]:
        """The words."""
        ...

    @property
    def names(self) -> Sequence[bool]:
        """For each word, whether it is written as a name."""
        ...


def tell_kind(sentence: Worded, at: int, value: Sequence[str]) -> str:
    """Return the kind of a value that begins at a place of a sentence: two kinds may hold beside each other."""
    if value[0] in PLACED and len(value) > 1:
        inner = tell_kind(sentence, at + 1, value[1:])
        return "place" if inner in {"name", "other"} else inner
    if not _DAYS.isdisjoint(value):
        return "day"
    if not _MONTHS.isdisjoint(value):
        return "date"
    if any(_CLOCK.fullmatch(word) for word in value):
        return "clock"
    if any(is_count(word) for word in value):
        return "number"
    return "name" if is_name(sentence, at, value) else "other"


def tell_kind_of(subject: str, sentence: Worded, at: int, value: Sequence[str]) -> str:
    """Return the kind of what a word is said to be: of people, who they are ("name") and what ("job", "trait") differ.

    "My friend is Tom" holds beside "my friend is a chef now".
    """
    kind = tell_kind(sentence, at, value)
    if kind not in {"name", "other"} or subject not in _LIVING:
        return kind
    if any(is_job(word) for word in value):
        return "job"
    return "name" if _names_somebody(subject, value[0], written=kind == "name") else "trait"


def _names_somebody(subject: str, low: str, *, written: bool) -> bool:
    """Return whether a word names a person; in German every noun is written as a name."""
    if low in _TITLES or is_given_name(low):
        return written or not is_word(low)
    return written and not is_word(low) and subject not in _GERMAN_LIVING


def is_job(low: str) -> bool:
    """Return whether a word is a profession, in English or German."""
    return low in _JOBS or low.removesuffix("in") in _JOBS or low.removesuffix("in").endswith(_GERMAN_JOBS)


def is_name(sentence: Worded, at: int, value: Sequence[str]) -> bool:
    """Return whether a value is written as a name; at the beginning of a sentence every word is."""
    return all(sentence.names[at : at + len(value)]) or (at == 0 and len(value) == 1)


def is_count(word: str) -> bool:
    """Return whether a word is a number."""
    return bool(_COUNT.fullmatch(word)) or word in _COUNTS


def is_counted(word: str) -> bool:
    """Return whether a word is a number, or a time of a clock or a calendar."""
    return is_count(word) or word in _DAYS or word in _MONTHS or bool(_CLOCK.fullmatch(word))
