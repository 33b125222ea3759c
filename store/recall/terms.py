"""Texts to index terms: the same rules for what is stored and for what is asked."""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, groupby, pairwise

import Stemmer

from store.recall.stopwords import STOP_WORDS

MAX_TERM_BYTES = 64
BIGRAM_PREFIX = "2:"

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
# Written without spaces between words: Thai, Lao, Myanmar, Khmer, kana, Han, Hangul, and their extensions.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)


def _marks() -> str:
    """Every combining mark, for a character class: without them Indic words fall apart at their vowels."""
    marks = (chr(c) for c in range(0x300, 0x20000) if unicodedata.category(chr(c))[0] == "M")
    return "".join(map(re.escape, marks))


_LETTERS = rf"(?:[^\W_{_UNSPACED}]++[{_marks()}]*+)++"
_PIECE = re.compile(rf"(?P<unspaced>[{_UNSPACED}]+)|{_LETTERS}(?:'{_LETTERS})?")
_ASCII_PIECE = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
_ACCENTS = re.compile("[\u0300-\u036f]")
_APOSTROPHES = re.compile("[\u2018\u2019\u02bc]")
_POSSESSIVE = re.compile("'s$|'")
_STEMMER = Stemmer.Stemmer("english")


@dataclass(frozen=True, slots=True)
class Terms:
    """What the index knows of a text: how often each term occurs, and how many words it has.

    `length` counts words (stop words left out); word pairs are among the terms but not in the length.
    """

    counts: Mapping[str, int]
    length: int


def analyse(text: str) -> Terms:
    """Return the terms of a text: lower case, accents and stop words out, English stems, word pairs.

    Adjacent words also give a pair `2:a_b`; scripts without spaces give overlapping pairs of characters.
    A term longer than 64 bytes is cut and ends in a digest, so no two of them become one. Never raises.
    """
    words, pairs = _ascii(text.lower()) if text.isascii() else _unicode(_folded(text))
    counts = Counter(map(_bounded, words))
    counts.update(map(_bounded, pairs))
    return Terms(counts, len(words))


def lexical_text(name: str | None, occurred_at: datetime | None, content: str) -> str:
    """Return what the index reads of a message: `[8 May 2023] Name: text`, so days and people are words too.

    `name` is the speaker's name, or the role where there is none. The day is the day in UTC.
    """
    said = f"{name}: {content}" if name else content
    if occurred_at is None:
        return said
    day = occurred_at.astimezone(UTC)
    return f"[{day.day} {_MONTHS[day.month - 1]} {day.year}] {said}"


def words_of(text: str) -> list[str]:
    """Return the words of a text as they stand: lower case, accents out, neither stemmed nor stopped."""
    if text.isascii():
        return _ASCII_PIECE.findall(text.lower())
    return [match.group() for match in _PIECE.finditer(_folded(text))]


def _ascii(text: str) -> tuple[list[str], list[str]]:
    words = _stems(_ASCII_PIECE.findall(text))
    return words, _pairs(words)


def _unicode(text: str) -> tuple[list[str], list[str]]:
    words: list[str] = []
    pairs: list[str] = []
    for unspaced, run in groupby(_PIECE.finditer(text), key=_is_unspaced):
        pieces = [match.group() for match in run]
        if unspaced:
            words += chain.from_iterable(map(_characters, pieces))
        else:
            stems = _stems(pieces)
            words += stems
            pairs += _pairs(stems)
    return words, pairs


def _is_unspaced(match: re.Match[str]) -> bool:
    return match.lastgroup == "unspaced"


def _stems(pieces: Sequence[str]) -> list[str]:
    bare = (_POSSESSIVE.sub("", piece) if "'" in piece else piece for piece in pieces)
    stems: list[str] = _STEMMER.stemWords([word for word in bare if word and word not in STOP_WORDS])
    return stems


def _pairs(stems: Sequence[str]) -> list[str]:
    return [f"{BIGRAM_PREFIX}{a}_{b}" for a, b in pairwise(stems)]


def _characters(run: str) -> list[str]:
    return [run] if len(run) == 1 else [a + b for a, b in pairwise(run)]


def _folded(text: str) -> str:
    """Compatibility forms, case and Latin accents gone; a dakuten or a Hangul syllable stays whole."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    return _APOSTROPHES.sub("'", unicodedata.normalize("NFC", _ACCENTS.sub("", plain)).casefold())


def _bounded(term: str) -> str:
    if len(term) * 4 <= MAX_TERM_BYTES:
        return term
    raw = term.encode()
    if len(raw) <= MAX_TERM_BYTES:
        return term
    digest = hashlib.blake2b(raw, digest_size=8).hexdigest()
    return raw[: MAX_TERM_BYTES - len(digest) - 1].decode(errors="ignore") + "#" + digest
