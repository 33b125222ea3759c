"""A text as words with their places, and which of them begin a sentence."""

import re
from typing import NamedTuple

from store.text.rules.canonical import fold_text
from store.text.rules.gazetteer import word_list

_LETTERS = r"[^\W_]++(?:[\u0300-\u036f]++[^\W_]*+)*"
_WORD = re.compile(rf"{_LETTERS}(?:['\u2019\u02bc\u2010\u2011-]{_LETTERS})*")
_SENTENCE_END = re.compile(r"[.!?\u2026\u3002:;\n\r\0*\u2022|>\"\u201c\u201e\u00ab]")
_POSSESSIVES = ("'s", "\u2019s", "\u02bcs", "'S", "\u2019S")


class Token(NamedTuple):
    """A word of a text: `text` at `start`, after `gap`, the characters between it and the word before.

    `low` is the word for look-ups, without case and possessive; `opens`: it begins a sentence.
    """

    text: str
    start: int
    gap: str
    low: str
    opens: bool

    @property
    def end(self) -> int:
        """Where the word ends in the text."""
        return self.start + len(self.text)

    @property
    def possessive(self) -> bool:
        """Whether the word ends in 's."""
        return self.text.endswith(_POSSESSIVES)

    @property
    def bare(self) -> str:
        """The word without its 's."""
        return self.text[:-2] if self.possessive else self.text

    @property
    def capital(self) -> bool:
        """Whether the word begins with a capital."""
        return self.text[0].isupper() or self.text[0].istitle()


def tokenize_text(text: str) -> list[Token]:
    """Return the words of a text in order."""
    found: list[Token] = []
    before = 0
    for match in _WORD.finditer(text):
        word, start = match.group(), match.start()
        gap = text[before:start]
        found.append(Token(word, start, gap, _lower_word(word), _opens_sentence(found, gap)))
        before = match.end()
    return found


def _lower_word(word: str) -> str:
    bare = word[:-2] if word.endswith(_POSSESSIVES) else word
    return bare.lower() if bare.isascii() else fold_text(bare)


def _opens_sentence(found: list[Token], gap: str) -> bool:
    if gap == " " and found:
        return False
    return not found or (_SENTENCE_END.search(gap) is not None and not _joins_full_stop(found[-1], gap))


def _joins_full_stop(before: Token, gap: str) -> bool:
    """Return whether a full stop belongs to the word before it: a title's or an initial's."""
    return gap == ". " and before.capital and (len(before.text) == 1 or before.low in _load_abbreviations())


def _load_abbreviations() -> frozenset[str]:
    return word_list("people", "title") | {"st", "mt"}
