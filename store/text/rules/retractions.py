"""Finds what a message takes back: "I live in Rome. Just kidding.", "I like opera. Not really." Pure.

A joke or a withdrawal takes back what stands before it: in its sentence, else the sentence before. A joke with nothing
before it reaches to the end of its sentence ("Just kidding, I live in Rome"), unless what follows is said to be so
("Just kidding, actually I live in Rome"). At the beginning of a message they take back the message before
(`endings.py`). A denial ("Not really") needs something before it: at the beginning it answers a question.
"""

import re
from bisect import bisect_left

from store.text.rules.pattern_tables import Patterns
from store.text.rules.repeated import find_repeated

_PATTERN = Patterns("retraction_patterns")


def find_unstated(text: str, author: str | None) -> list[tuple[int, int]]:
    """Return the spans of what a message only repeats, or takes back."""
    return [*find_repeated(text, author), *find_taken_back(text)]


def find_taken_back(text: str) -> list[tuple[int, int]]:
    """Return the spans of what a message takes back of itself, with the words that do. Linear in the text."""
    if not _PATTERN.signs.search(text):
        return []
    found = [
        one
        for pattern in (_PATTERN.taken_back, _PATTERN.at_end, _PATTERN.at_beginning)
        for one in pattern.finditer(text)
    ]
    ends = [one.span() for one in _PATTERN.sentence_end.finditer(text)] if found else []
    return [span for one in found if (span := _find_span(text, one, ends)) is not None]


def takes_back_message_before(text: str) -> tuple[int, int] | None:
    """Return the span of the joke or withdrawal that a message begins with, which is about the message before."""
    found = _PATTERN.taken_back.match(text) or _PATTERN.at_beginning.match(text)
    is_one = found is not None and (found["joke"] or found.groupdict().get("withdrawal"))
    return found.span("said") if found and is_one else None


def _find_span(text: str, found: re.Match[str], ends: list[tuple[int, int]]) -> tuple[int, int] | None:
    """Return what a phrase takes back, with the phrase; None where it takes back nothing of this text."""
    start, end = found.span("said")
    after = bisect_left(ends, (start, 0))
    for before in range(after, max(-1, after - 3), -1):
        begin = ends[before - 1][1] if before else 0
        if _PATTERN.word.search(text, begin, start):
            return begin, end
    if not found["joke"]:
        return None
    stop = ends[after][0] if after < len(ends) else len(text)
    return None if _PATTERN.meant.search(text[end:stop]) else (start, stop)
