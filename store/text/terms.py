"""Turns texts into index terms, by the same rules for storage and questions."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain, groupby, islice, pairwise

import Stemmer

from store.off_loop import cut_at_spaces, iterate_giving_way
from store.text.normal_forms import MARKS, normalise_text
from store.text.stopwords import STOP_WORDS
from store.text.word_rules import AUTO, FIRST, WordRules, rules_of

MAX_TERM_BYTES = 64
#: Terms of one text that are looked up, the first of them: every one is a row of the index.
MOST_TERMS = 16_384
#: Most words whose stems are cached.
WORDS_KEPT = 16_384

#: Scripts without spaces between words, for a character class: Thai, Lao, Myanmar, Khmer, kana, Han, Hangul, and their
#: extensions.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)


# With the marks, because otherwise Indic words would be split at their vowels.
_LETTERS = rf"(?:[^\W_{UNSPACED}]++{MARKS}*)+"
_PIECE = re.compile(rf"(?P<unspaced>[{UNSPACED}]+)|{_LETTERS}(?:'{_LETTERS})?")
_ASCII_PIECE = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
# "PROJ-1187", "1.10.2" and "ERR_CONN_42": pieces that are joined, with a figure or an underscore among them.
_JOINTS = frozenset("-_.")
_JOINED = re.compile(rf"(?<![^\W_{UNSPACED}])[^\W_{UNSPACED}]++(?:[-_.]++[^\W_{UNSPACED}]++)+")
_MARKED = re.compile(r"[0-9_]")
_HUMP = re.compile(r"[a-z][A-Z]")
_ASCII_WORD = re.compile(r"[A-Za-z0-9]+")
_BETWEEN_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ACCENTS = re.compile("[\u0300-\u036f]")
_APOSTROPHES = re.compile("[\u2018\u2019\u02bc]")
_POSSESSIVE = re.compile("'s$|'")
_STEMMER = Stemmer.Stemmer("english")
#: Breve and letter that are one letter: й without its breve is another.
_SHORT_I = ("\u0438\u0306", "\u0439")

_AUTO = rules_of(AUTO)


@dataclass(frozen=True, slots=True)
class Terms:
    """The index terms of a text: how often each occurs, and the number of words.

    `length` counts words, stop words left out.
    """

    counts: Mapping[str, int]
    length: int


def analyse_text(text: str, rules: WordRules = _AUTO) -> Terms:
    """Return the terms of a text: in lower case, without accents and stop words, stemmed by the bank's rules.

    Scripts without spaces give overlapping pairs of characters. An identifier such as "PROJ-1187" or "userName" is a
    term beside its pieces, so that the text that holds it goes before one that holds another.
    A term longer than 64 bytes is cut and ends in a digest, so no two of them become one. Of a text with more than
    MOST_TERMS different terms the first are kept. Never raises.
    """
    plain = text.isascii()
    terms = words = _cut_ascii(text.lower(), rules) if plain else _cut_unicode(_read_text(text, rules), rules)
    terms = [*terms, *_find_identifiers(text, rules)]
    if len(terms) > MOST_TERMS:
        terms = _first_of(terms)
    if max(map(len, terms), default=0) > (MAX_TERM_BYTES if plain else MAX_TERM_BYTES // 4):
        terms = list(map(_bound_term, terms))
    return Terms(Counter(terms), len(words))


def _find_identifiers(text: str, rules: WordRules) -> list[str]:
    """Return the identifiers of joined pieces, as they stand, and the words of those written like "userName"."""
    odd = [
        word
        for part in cut_at_spaces(text)
        for word in part.split()
        if not (word.islower() or word.istitle()) or not word.isalpha()
    ]
    marked = (word for word in iterate_giving_way(odd) if not _JOINTS.isdisjoint(word) and _MARKED.search(word))
    joined = [one.casefold() for word in marked for one in _JOINED.findall(word) if _MARKED.search(one)]
    humped = [
        one
        for word in iterate_giving_way(odd)
        if _HUMP.search(word)
        for one in _ASCII_WORD.findall(word)
        if _HUMP.search(one)
    ]
    return [*joined, *_cut_ascii(" ".join(map(_split_humps, humped)), rules)] if humped else joined


def _split_humps(word: str) -> str:
    return _BETWEEN_HUMPS.sub(" ", word).lower()


def question_terms(text: str, rules: Sequence[WordRules]) -> Mapping[str, int]:
    """Return the terms to look up for a question to a bank whose words follow any of these rules."""
    counts: dict[str, int] = {}
    for one in rules:
        for term, count in analyse_text(text, one).counts.items():
            counts[term] = max(count, counts.get(term, 0))
    return counts


def lexical_text(name: str | None, occurred_at: datetime | None, content: str, rules: WordRules = _AUTO) -> str:
    """Return the text that is indexed for a message: `[8 May 2023] Name: text`, so days and people are words too.

    `name` is the speaker's name, or the role where there is none. The day is the day in UTC, its month as the bank's
    language calls it.
    """
    said = f"{name}: {content}" if name else content
    if occurred_at is None:
        return said
    day = occurred_at.astimezone(UTC)
    return f"[{day.day} {rules.months[day.month - 1]} {day.year}] {said}"


def split_words(text: str) -> list[str]:
    """Return the words of a text in lower case and without accents, neither stemmed nor without stop words."""
    if text.isascii():
        return _ASCII_PIECE.findall(text.lower())
    return [match.group() for match in _PIECE.finditer(_fold_text(text))]


def _cut_ascii(text: str, rules: WordRules) -> list[str]:
    words: list[str] = []
    for part in cut_at_spaces(text):
        pieces = _ASCII_PIECE.findall(part)
        words += _stem_pieces(pieces) if rules.english else _cut_pieces(pieces, rules)
    return words


def _cut_unicode(text: str, rules: WordRules) -> list[str]:
    words: list[str] = []
    for unspaced, run in groupby(_PIECE.finditer(text), key=_is_unspaced):
        pieces = [match.group() for match in iterate_giving_way(run)]
        if unspaced:
            words += chain.from_iterable(map(_character_pieces, pieces))
        else:
            words += _stem_pieces(pieces) if _is_english(pieces, rules) else _cut_pieces(pieces, rules)
    return words


def _is_unspaced(match: re.Match[str]) -> bool:
    return match.lastgroup == "unspaced"


def _stem_pieces(pieces: Sequence[str]) -> list[str]:
    stems = (_known_stem(piece) if len(piece) <= MAX_TERM_BYTES else _stem_word(piece) for piece in pieces)
    return [stem for stem in stems if stem]


def _stem_word(piece: str) -> str:
    """Return the stem of a word, an empty text for a stop word."""
    bare = _POSSESSIVE.sub("", piece) if "'" in piece else piece
    return "" if bare in STOP_WORDS else str(_STEMMER.stemWord(bare))


_known_stem = lru_cache(maxsize=WORDS_KEPT)(_stem_word)


def _is_english(pieces: Sequence[str], rules: WordRules) -> bool:
    return rules.name == FIRST or (rules.english and all(map(str.isascii, pieces)))


def _cut_pieces(pieces: Sequence[str], rules: WordRules) -> list[str]:
    bare = (_POSSESSIVE.sub("", piece) if "'" in piece else piece for piece in pieces)
    return rules.stems([word for word in bare if word])


def _character_pieces(run: str) -> list[str]:
    return [run] if len(run) == 1 else [a + b for a, b in pairwise(run)]


def _read_text(text: str, rules: WordRules) -> str:
    """Return a text prepared for its rules; where stems depend on accents, these stay until the words are stemmed."""
    if rules.name == FIRST:
        return _fold_text(text)
    if not rules.english:
        kept = normalise_text("NFKC", normalise_text("NFKC", text).casefold())
        return _APOSTROPHES.sub("'", kept)
    plain = normalise_text("NFKD", text.casefold()).replace(*_SHORT_I)
    return _APOSTROPHES.sub("'", normalise_text("NFC", _ACCENTS.sub("", plain)).casefold())


def _fold_text(text: str) -> str:
    """Return a text in compatibility forms, without case and Latin accents; dakuten and Hangul syllables stay whole."""
    plain = normalise_text("NFKD", text.casefold())
    return _APOSTROPHES.sub("'", normalise_text("NFC", _ACCENTS.sub("", plain)).casefold())


def _first_of(terms: Sequence[str]) -> list[str]:
    """Return the terms that are among the first MOST_TERMS different ones."""
    first = frozenset(islice(dict.fromkeys(terms), MOST_TERMS))
    return [term for term in terms if term in first]


def _bound_term(term: str) -> str:
    raw = term.encode()
    if len(raw) <= MAX_TERM_BYTES:
        return term
    digest = hashlib.blake2b(raw, digest_size=8).hexdigest()
    return raw[: MAX_TERM_BYTES - len(digest) - 1].decode(errors="ignore") + "#" + digest
