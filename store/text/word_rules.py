"""Stems and stop words, by the script of a word and the bank's language.

A bank without a language is `auto`: each word follows the usual language of its script, Latin letters English. A
bank's own language replaces the usual one of its script; `none` leaves every word unchanged. The languages are data
(data/languages.toml). Chinese, Japanese, Korean and other scripts without spaces need none: `terms` splits them into
pairs of characters.
"""

import re
import tomllib
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

import Stemmer

from store.text.normal_forms import normalise_text
from store.text.stopwords import STOP_WORDS

AUTO = "auto"
NONE = "none"
#: The rules of all banks before scripts had rules of their own; needed while older words follow a change.
FIRST = "first"

LATIN = "latin"
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
#: Where each script begins, and which one; what lies between belongs to no script that has rules.
_BLOCKS = (
    *((0x0000, LATIN), (0x0370, "greek"), (0x0400, "cyrillic"), (0x0530, "armenian"), (0x0590, "hebrew")),
    *((0x0600, "arabic"), (0x0700, ""), (0x0750, "arabic"), (0x0780, ""), (0x0900, "devanagari"), (0x0980, "")),
    *((0x0B80, "tamil"), (0x0C00, ""), (0x1E00, LATIN), (0x1F00, "greek"), (0x2000, ""), (0x2C60, LATIN), (0x2C80, "")),
    *((0xA640, "cyrillic"), (0xA6A0, ""), (0xFB50, "arabic"), (0xFE00, "")),
)
_STARTS = [start for start, _ in _BLOCKS]
_ACCENTS = re.compile("[\u0300-\u036f]")
#: Vowel signs that are hardly ever written.
_POINTS = re.compile("[\u0591-\u05c7\u064b-\u065f\u0670]")
#: Letters a word keeps at least when a prefix is taken from it.
_LEAST_LETTERS = 3
_FILE = Path(__file__).parent / "data" / "languages.toml"


@dataclass(frozen=True, slots=True)
class Words:
    """The stemmer and stop words of one language; without a stemmer words stay unchanged."""

    script: str
    stemmer: str | None = None
    stop: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()

    def cut(self, words: Iterable[str]) -> list[str]:
        """Return the stems of words in lower case, without accents and without stop words."""
        kept = [word for word in words if strip_accents(word) not in self.stop]
        if self.prefixes:
            kept = [self._bare(word) for word in kept]
        return [strip_accents(stem) for stem in (_load_stemmer(self.stemmer).stemWords(kept) if self.stemmer else kept)]

    def _bare(self, word: str) -> str:
        word = _POINTS.sub("", word)
        fits = (p for p in self.prefixes if word.startswith(p) and len(word) - len(p) >= _LEAST_LETTERS)
        return word[len(next(fits, "")) :]


_ENGLISH = Words(LATIN, "english", STOP_WORDS)
_AS_IT_STANDS = Words("")


@dataclass(frozen=True, slots=True)
class WordRules:
    """The rules for a bank's words by script, and its names of months."""

    name: str
    scripts: Mapping[str, Words] = field(repr=False)
    months: Sequence[str] = MONTHS

    @property
    def english(self) -> bool:
        """Whether words in Latin letters are English, which needs no accents."""
        return self.scripts.get(LATIN) is _ENGLISH

    def stems(self, words: Sequence[str]) -> list[str]:
        """Return the stems of a sequence of words, each by the rules of its script."""
        found: list[str] = []
        for script, run in groupby(words, detect_script):
            found += self.scripts.get(script, _AS_IT_STANDS).cut(run)
        return found


def supported_languages() -> Mapping[str, str]:
    """Return the languages that a bank may have, with their scripts."""
    return {code: str(told["script"]) for code, told in _load_table().items()}


@lru_cache(maxsize=64)
def rules_of(language: str) -> WordRules:
    """Return the rules of a bank's language, `auto`, `none` or `first`. Raises ValueError for an unknown one."""
    if language == NONE:
        return WordRules(NONE, {})
    usual = _usual_words()
    if language in (AUTO, FIRST):
        return WordRules(language, usual)
    if language not in _load_table():
        raise ValueError("there are no rules for this language")
    own = _words_of_language(language)
    return WordRules(language, {**usual, own.script: own}, _load_table()[language].get("months", "").split() or MONTHS)


def detect_script(word: str) -> str:
    """Return the script of a word's first letter; empty for a script without rules."""
    return _BLOCKS[bisect(_STARTS, ord(word[0])) - 1][1]


def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of a language, in lower case and without accents."""
    return _words_of_language(language).stop


def strip_accents(word: str) -> str:
    """Return a text without accents and vowel points; й keeps its breve, without which it is another letter."""
    if word.isascii():
        return word
    parts = normalise_text("NFKD", word).replace("\u0438\u0306", "\u0439")
    return normalise_text("NFC", _ACCENTS.sub("", _POINTS.sub("", parts)))


@lru_cache(maxsize=1)
def _usual_words() -> Mapping[str, Words]:
    return {told["script"]: _words_of_language(code) for code, told in _load_table().items() if told.get("usual")}


@lru_cache(maxsize=1)
def _load_table() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


@lru_cache(maxsize=64)
def _words_of_language(code: str) -> Words:
    if code == "en":
        return _ENGLISH
    told = _load_table()[code]
    stop = frozenset(strip_accents(word.casefold()) for word in told.get("stop", "").split())
    return Words(told["script"], told.get("stemmer"), stop, tuple(told.get("prefixes", ())))


@lru_cache(maxsize=64)
def _load_stemmer(name: str) -> Stemmer.Stemmer:
    return Stemmer.Stemmer(name)
