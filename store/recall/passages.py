"""Cuts a long text to the passage that answers a question best: its best sentence with its context. Pure.

A sentence's score is the sum of the idf of the question's words in it, each counted once. A word is found where a word
of the text begins with its stem. The best sentence is extended by its neighbours, the better one first, until the
passage has its size; so a passage is one piece of the text, with a mark at each end where text was cut off.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from store.off_loop import give_way, iterate_giving_way
from store.text.word_rules import strip_accents

#: The size of a passage, and that of one of the later passages of an answer, of which more fit so.
TOKENS, LATER_TOKENS = 120, 40
#: Of English text; in other scripts a character is up to one token.
CHARACTERS_PER_TOKEN = 4
#: Characters of a text, from its beginning, that are searched.
SEARCHED = 65_536
#: Stands where text was left out.
MARK = "\u2026"

_FOREIGN = re.compile("[\u0300-\U0010ffff]")
_SENTENCE = re.compile(r"[^\n.!?\uff1f\u3002]+(?:[.!?\uff1f\u3002]+[\"')\]]*|\n|\Z)|[\n.!?\uff1f\u3002]+")


class Sentence(NamedTuple):
    """One sentence: from `begin` to `end` in its text; `worth` is its score for a question."""

    begin: int
    end: int
    worth: float


def cut_passage(text: str, weights: Mapping[str, float], tokens: int = TOKENS) -> str:
    """Return the text if it fits into `tokens`, else its best passage of that size, with MARK at each cut end.

    `weights` are the weights of the question's stems.
    """
    room = _count_room(text, tokens)
    if len(text) <= room:
        return text
    sentences = list(_weigh_sentences(text[:SEARCHED], weights, room))
    begin, end = _grow_passage(sentences, room)
    said = text[begin:end].strip()
    before = f"{MARK} " if text[:begin].strip() else ""
    behind = f" {MARK}" if text[end:].strip() else ""
    return f"{before}{said}{behind}"


def _count_room(text: str, tokens: int) -> int:
    """Return how many characters of this text make about this number of tokens."""
    beginning = text[:SEARCHED]
    foreign = 0 if beginning.isascii() else len(_FOREIGN.findall(beginning))
    share = foreign / max(1, len(beginning))
    return max(1, int(tokens * (CHARACTERS_PER_TOKEN * (1 - share) + share)))


def _weigh_sentences(text: str, weights: Mapping[str, float], room: int) -> Iterator[Sentence]:
    """Yield the sentences of a text in order; a sentence longer than `room` is yielded in pieces of at most `room`."""
    found = sorted(_find_words(text, weights))
    at = 0
    for begin, end in iterate_giving_way(_split_sentences(text, room)):
        first = at
        while at < len(found) and found[at][0] < end:
            at += 1
        words = {word for _, word in found[first:at]} if at > first else ()
        # Exact: a set has another order in each process, and rounding differs with it.
        yield Sentence(begin, end, math.fsum(map(weights.__getitem__, words)))


def _split_sentences(text: str, room: int) -> Iterator[tuple[int, int]]:
    for match in _SENTENCE.finditer(text):
        begin, last = match.span()
        while last - begin > room:
            cut = text.rfind(" ", begin + room // 2, begin + room)
            end = cut + 1 if cut > 0 else begin + room
            yield begin, end
            begin = end
        yield begin, last


def _find_words(text: str, weights: Mapping[str, float]) -> Iterator[tuple[int, str]]:
    """Yield each offset where a word begins with one of the stems, and the stem."""
    lower = text.lower()
    plain = lower if lower.isascii() else strip_accents(lower)
    if len(plain) != len(text):
        plain = lower if len(lower) == len(text) else text
    for stem in filter(None, weights):
        give_way()
        begins = stem.removesuffix("i") or stem  # "happi" is the stem of "happy"
        anywhere, at = not begins.isascii(), plain.find(begins)
        while at >= 0:
            if anywhere or not (at and plain[at - 1].isalnum()):
                yield at, stem
            at = plain.find(begins, at + len(begins))


def _grow_passage(sentences: Sequence[Sentence], room: int) -> tuple[int, int]:
    """Return where the passage begins and ends: the best sentence and as many of its neighbours as `room` holds."""
    worths = [sentence.worth for sentence in sentences]
    first = last = worths.index(max(worths))
    begin, end = sentences[first].begin, sentences[last].end
    while True:
        before = sentences[first - 1] if first else None
        after = sentences[last + 1] if last + 1 < len(sentences) else None
        fits = [one for one in (after, before) if one and one.end - one.begin + end - begin <= room]
        if not fits:
            return begin, end
        one = max(fits, key=lambda one: one.worth)
        if one is after:
            last, end = last + 1, one.end
        else:
            first, begin = first - 1, one.begin
