"""Time expressions of each language, as data (data/calendars.toml), for questions and extraction."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

_FILE = Path(__file__).parent / "data" / "calendars.toml"
_WORD = re.compile(r"[^\W\d_]+")
#: A pattern that matches no text.
_NEVER = "(?!)"
T = TypeVar("T")
#: Days of a unit: of a month and a year, their average.
DAYS = {"day": 1.0, "week": 7.0, "fortnight": 14.0, "month": 30.44, "year": 365.25}

_YEAR, _MONTH, _DAY = r"(?P<year>(?:19|20)\d\d)", r"(?P<number>0?[1-9]|1[0-2])", r"(?P<day>\d\d?)"
_BEYOND_A_MONTH = r"(?P<day>1[3-9]|2\d|3[01])"
#: Dates in figures, which are the same in all languages. Of two figures with a slash, which is the day is told by what
#: is no month; where both may be, none is read.
FIGURES = (
    rf"{_YEAR}(?P<mark>[-/.]){_MONTH}(?P=mark){_DAY}",
    rf"{_YEAR}-(?P<number>\d\d)",
    rf"{_DAY}\.{_MONTH}\.{_YEAR}",
    rf"{_BEYOND_A_MONTH}/{_MONTH}/{_YEAR}",
    rf"{_MONTH}/{_BEYOND_A_MONTH}/{_YEAR}",
)


@dataclass(frozen=True, slots=True, eq=False)
class Calendar:
    """The time words of one language, from the file, in lower case and without accents.

    An expression that the language lacks is a pattern that matches nothing. January is 1, Monday is 0.
    """

    months: Mapping[str, int]
    weekdays: Mapping[str, int]
    seasons: Mapping[str, int]
    units: Mapping[str, str]
    numbers: Mapping[str, float]
    days: Mapping[str, int]
    weekend: str
    last: str
    this: str
    next: str
    earlier: str
    later: str
    until: str
    since: str
    at: str
    may_be_no_time: frozenset[str]
    of: str = _NEVER
    article: str = _NEVER
    ordinal: str = _NEVER
    ago: str = _NEVER
    ago_before: str = _NEVER
    past: str = _NEVER
    follows: bool = False
    vague: Mapping[str, float] = field(default_factory=dict)

    @property
    def full_months(self) -> Sequence[str]:
        """The months by their unabbreviated names."""
        return [names.partition("|")[0] for names in self.months]

    @property
    def counts(self) -> str:
        """A pattern of numbers of units, in figures or in words."""
        return "|".join((r"\d{1,3}", *self.vague, *self.numbers))

    def count(self, word: str) -> float:
        """Return the number of a match of `counts`."""
        return int(word) if word.isdecimal() else find_value({**self.vague, **self.numbers}, word)

    @property
    def signs(self) -> frozenset[str]:
        """A pattern of the words of which every time expression but a year holds one."""
        kinds = (self.months, self.weekdays, self.seasons, self.units, self.days)
        phrases = (phrase for kind in kinds for words in kind for phrase in words.split("|"))
        return frozenset(_WORD.findall(phrase)[-1] for phrase in (*phrases, *self.weekend.split("|")))


@cache
def load_calendars() -> Mapping[str, Calendar]:
    """Return all calendars by the codes of their languages, English first."""
    told = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return {code: _build_calendar(fields) for code, fields in told.items()}


def find_value(values: Mapping[str, T], word: str) -> T:
    """Return the value of the pattern that matches a word, ignoring case; one does, as a pattern of all found it."""
    return next(value for pattern, value in values.items() if re.fullmatch(pattern, word, re.IGNORECASE))


def _build_calendar(told: Mapping[str, Any]) -> Calendar:
    numbered = {
        "months": {words: number for number, words in enumerate(told["months"], 1)},
        "weekdays": {words: number for number, words in enumerate(told["weekdays"])},
        "units": {words: unit for unit, words in told["units"].items()},
    }
    return Calendar(**{**told, **numbered, "may_be_no_time": frozenset(told["may_be_no_time"])})
