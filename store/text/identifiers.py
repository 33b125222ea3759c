"""Identifiers in texts: error codes, versions, order numbers, file names, flags, names in code. Pure.

A text may hold a question's identifier as it is, or as a part of a longer one ("PROJ-1187-fix"). A text that does not
may hold a near one: a shorter or longer one ("E404" for "E4041"), one of the same form ("3.11" for "3.12.1"), another
of what the word before it names ("order 1002" for "order 1001"), or a piece of it ("user" for "user_group_id").
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache, cached_property
from itertools import islice, pairwise
from math import ceil
from re import Match

from store.text.calendars import load_calendars
from store.text.stopwords import STOP_WORDS
from store.text.terms import UNSPACED

#: Most identifiers of a question, and most characters of each: more of them are pasted text.
MOST, LONGEST = 8, 128
#: Most occurrences in a text that are read, and most different words with a figure, the first of them.
MOST_FOUND, MOST_MARKS = 64, 64
#: Share of an identifier's characters, from its first, that a near one shares, and their least number.
SHARED, LEAST_SHARED = 0.6, 4
#: Least letters of a piece that is looked for as a word, and of a word before a number that says what it numbers.
LEAST_LETTERS, LEAST_NAME = 3, 4
#: Letters by which a word may be longer than the one before the number: "orders 12".
INFLECTION = 2
#: Least digits of a number that stands for a thing by itself.
LEAST_DIGITS = 3
#: Least characters of a shortened hash; least digits of a telephone number, of which as many from its end are enough.
HASH, PHONE = 7, 7

_SIGN, _WORD, _JOINT = rf"[^\W_{UNSPACED}]", rf"[^\W{UNSPACED}]", r"[-./:@#+]"
_TOKEN = re.compile(rf"(?:--|~?/|\./)?{_WORD}++(?:(?:{_JOINT}++(?={_WORD})|,(?=\d\d\d)){_WORD}*+)*")
_PIECE, _HUMP = re.compile(rf"{_SIGN}+"), re.compile(r"(?<=[a-z])(?=[A-Z])")
_GOES_ON, _SIGN_ALONE = re.compile(rf"{_WORD}|{_JOINT}+{_WORD}"), re.compile(_SIGN)
_COMES_FROM = re.compile(rf".?(?:{_WORD}|-)|{_WORD}{_JOINT}", re.DOTALL)
_PHONE = re.compile(r"(?<![\w.-])(?:\+\d|\(|0)[\d() /-]{5,28}\d(?!\w)|(?<![\w.-])\d{3,}(?: \d{2,}){1,4}(?![\w.-])")
_DIGITS = re.compile(r"\d[\d() ./-]*\d")
_NAME = re.compile(r"([^\W\d_]+)\W{1,3}(?:(?:no|nr|number|nummer)\W{1,2})?$", re.IGNORECASE)

_NUMBER, _YEAR = re.compile(r"\d[\d,]*"), re.compile(r"(?:19|20)\d\d")
_COUNTED = re.compile(r" *[%$\u20ac]| +\w")
# "3rd", "1990s", "10km", "9:30", "2-year-old", "24/7", "mid-2023", "2022-2023": times, counts and amounts.
_COUNT = re.compile(
    r"\d+[.,:]?\d*(?:st|nd|rd|th|s|am|pm|h|min|sec|ms|km|cm|mm|m|kg|g|k|l|x)|\d{1,2}:\d\d|\d{1,2}/\d{1,2}"
    r"|\d{1,3}(?-i:-[a-z]{3,})+|(?-i:[a-z]+-)?(?:(?:19|20)\d\d-)*(?:19|20)\d\d",
    re.IGNORECASE,
)
_MARKED = re.compile(r"(?=.*\d)(?=.*\D)|.*\w_\w|--|.*/")
_CAMEL = re.compile(r"[a-z]{2,}(?:[A-Z][a-z]+)+")
_DOTTED, _SENTENCES = re.compile(r"(?:\w{2,}|[\w.+-]++@\w[\w-]*+)(?:[.@]\w{2,})+"), re.compile(r"[a-z]\.[A-Z]")
_PATH = re.compile(r"~|\.|/|.*/.*/|.*[._-]|[\d/]+$")
_VERSION, _NUMBERS = re.compile(r"v(?=\d+\.\d)"), re.compile(r"\d+(?:\.\d+)+")
_LETTERED, _HASH = re.compile(r"[a-z]+(?=\d+$)"), re.compile(rf"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{{{HASH},64}}")


class Held(IntEnum):
    """How much of an identifier a text holds."""

    NOTHING = 0
    NEAR = 1
    PART = 2
    WHOLE = 3


@dataclass(frozen=True)
class SearchedText:
    """A text in lower case, with what comparisons need, computed when it is needed."""

    text: str = field(repr=False)

    @cached_property
    def words(self) -> list[str]:
        """The runs of letters and figures, in order."""
        return _PIECE.findall(self.text)

    @cached_property
    def different_words(self) -> frozenset[str]:
        """Each word once."""
        return frozenset(self.words)

    @cached_property
    def marks(self) -> tuple[str, ...]:
        """The first words with a figure, each once."""
        return tuple(islice(dict.fromkeys(word for word in self.words if not word.isalpha()), MOST_MARKS))

    @cached_property
    def long_numbers(self) -> frozenset[str]:
        """The digits of runs of figures that may be telephone numbers."""
        return frozenset(_keep_digits(run) for run in _DIGITS.findall(self.text))

    @cached_property
    def has_numbers(self) -> bool:
        """Whether it holds a number such as "3.12.1"."""
        return _NUMBERS.search(self.text) is not None


@dataclass(frozen=True, slots=True)
class Identifier:
    """An identifier of a question, in lower case, of a telephone number its digits, and its pieces.

    `named` is the word before it, which says what it numbers. `is_weak`: it may be a common word, such as "self-care"
    or "YouTube", so its pieces tell nothing.
    """

    text: str = field(repr=False)
    pieces: tuple[str, ...] = field(repr=False)
    named: str = field(default="", repr=False)
    is_weak: bool = False
    is_phone: bool = False

    def find(self, where: SearchedText) -> Held:
        """Return how much of it a text holds: WHOLE, PART, or NOTHING, where `is_near` may be true."""
        if self.is_phone:
            return _find_phone(self.text, where)
        found = max(islice(self._list_found(where.text), MOST_FOUND), default=Held.NOTHING)
        is_part = not found and _HASH.fullmatch(self.text) and any(map(self._abbreviates, where.marks))
        return Held.PART if is_part else found

    def is_near(self, where: SearchedText) -> bool:
        """Return whether a text that does not hold it holds a near one or a piece of it."""
        shared = self.text[: ceil(len(self.text) * SHARED)]
        if len(shared) >= LEAST_SHARED and shared in where.text:
            return True
        if self.is_weak:
            return False
        figures = [piece for piece in self.pieces if len(piece) > 1 and not piece.isalpha()]
        return (
            not where.different_words.isdisjoint(piece for piece in self.pieces if _is_telling_word(piece))
            or (where.has_numbers and _NUMBERS.fullmatch(self.text) is not None)
            or any(_are_alike(piece, mark) for piece in figures for mark in where.marks)
            or (len(self.pieces) == 1 and any(_have_one_form(self.text, mark) for mark in where.marks))
            or (self.named in where.text and self._numbers_another(where))
        )

    def _list_found(self, text: str) -> Iterator[Held]:
        """Yield how its occurrences stand in a text."""
        start = text.find(self.text)
        while start >= 0:
            end = start + len(self.text)
            yield self._read_bounds(text, start, end)
            start = text.find(self.text, end)

    def _read_bounds(self, text: str, start: int, end: int) -> Held:
        first = start - (text[:start].endswith("v") if _NUMBERS.match(self.text) else 0)
        before = text[max(0, first - 2) : first]
        begins = not before or not (_SIGN_ALONE.match(before[-1]) and _SIGN_ALONE.match(self.text))
        if not begins or _SIGN_ALONE.match(text, end):
            return Held.NOTHING
        return Held.PART if _COMES_FROM.fullmatch(before) or _GOES_ON.match(text, end) else Held.WHOLE

    def _abbreviates(self, mark: str) -> bool:
        """Return whether a word is the beginning of this hash, or a hash of which this is the beginning."""
        return _HASH.fullmatch(mark) is not None and (self.text.startswith(mark) or mark.startswith(self.text))

    def _numbers_another(self, where: SearchedText) -> bool:
        """Return whether a text holds the word before this one before another number."""
        longest = len(self.named) + INFLECTION
        return bool(self.named) and any(
            word.startswith(self.named) and len(word) <= longest and not after.isalpha()
            for word, after in pairwise(where.words)
        )


def find_identifiers(text: str) -> tuple[Identifier, ...]:
    """Return the identifiers of a question, the first MOST of them, each once; times and counts are none."""
    found = dict[str, Identifier]()
    for match in _PHONE.finditer(text):
        digits = _keep_digits(match.group())
        if len(digits) >= PHONE and digits.isascii():
            pieces = tuple(_PIECE.findall(match.group()))
            found.setdefault(digits, Identifier(digits, pieces, is_phone=True))
            text = text[: match.start()] + " " * len(match.group()) + text[match.end() :]
    for match in _TOKEN.finditer(text):
        if len(found) >= MOST:
            break
        if _may_be_identifier(match.group()):
            for one in _read_token(match, text):
                found.setdefault(one.text, one)
    return tuple(islice(found.values(), MOST))


def _may_be_identifier(token: str) -> bool:
    """Return whether a token is no plain word; most are."""
    return not token.isalpha() or _HUMP.search(token) is not None


def _read_token(match: Match[str], text: str) -> Iterator[Identifier]:
    token = match.group()
    if len(token) > LONGEST:
        return
    if "/" in token and not _PATH.match(token):
        for part in token.split("/"):
            if one := _TOKEN.fullmatch(part):
                yield from _read_token(one, part)
        return
    named = _read_name(text[max(0, match.start() - LONGEST) : match.start()])
    if _NUMBER.fullmatch(token):
        if _numbers_something(token, named, text[match.end() :]):
            yield Identifier(token, (token,), named)
    elif not _COUNT.fullmatch(token):
        dotted = _DOTTED.fullmatch(token) and not _SENTENCES.search(token)
        is_strong = bool(_MARKED.match(token) or _CAMEL.fullmatch(token) or dotted)
        if is_strong or "-" in token or _HUMP.search(token):
            pieces = tuple(_PIECE.findall(_HUMP.sub(" ", token).casefold()))
            yield Identifier(_VERSION.sub("", token.casefold()), pieces, named, is_weak=not is_strong)


def _numbers_something(number: str, named: str, rest: str) -> bool:
    """Return whether a number names a thing: a short one does behind a word, unless it counts what follows."""
    if len(number) < LEAST_DIGITS:
        return bool(named) and len(number) > 1 and not _COUNTED.match(rest)
    return not _YEAR.fullmatch(number)


def _read_name(before: str) -> str:
    """Return the word that ends the text before a number, if it may name the numbered thing."""
    word = match[1].casefold() if (match := _NAME.search(before)) else ""
    return "" if len(word) < LEAST_NAME or word in STOP_WORDS or word in _list_time_words() else word


def _find_phone(digits: str, where: SearchedText) -> Held:
    if digits in where.long_numbers:
        return Held.WHOLE
    return Held.PART if any(one.endswith(digits[-PHONE:]) for one in where.long_numbers) else Held.NOTHING


def _is_telling_word(piece: str) -> bool:
    return piece.isalpha() and len(piece) >= LEAST_LETTERS and piece not in STOP_WORDS


def _are_alike(piece: str, mark: str) -> bool:
    """Return whether one of two words with figures continues the other, or both begin alike."""
    shared = piece[: max(2, ceil(len(piece) * SHARED))]
    is_cut = len(mark) > 1 and (piece.startswith(mark) or piece.endswith(mark))
    return mark.startswith(shared) or is_cut or mark.endswith(piece)


def _have_one_form(text: str, mark: str) -> bool:
    """Return whether two words are numbers of one length, hashes, or the same letters before a number."""
    if text.isdecimal():
        return mark.isdecimal() and len(mark) == len(text) and not _YEAR.fullmatch(mark)
    if _HASH.fullmatch(text):
        return _HASH.fullmatch(mark) is not None
    letters = _LETTERED.match(text)
    return letters is not None and (other := _LETTERED.match(mark)) is not None and other.group() == letters.group()


def _keep_digits(text: str) -> str:
    return "".join(filter(str.isdecimal, text))


@cache
def _list_time_words() -> frozenset[str]:
    return frozenset().union(*(calendar.signs for calendar in load_calendars().values()))
