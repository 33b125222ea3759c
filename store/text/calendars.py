"""How languages speak of time, as data (data/calendars.toml); `times` reads texts by it."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parent / "data" / "calendars.toml"
_WORD = re.compile(r"[^\W\d_]+")
#: What no text holds.
_NEVER = "(?!)"

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
    """The words of one language, as the file tells them, in lower case and without accents.

    What the language does not have is a pattern that fits nothing.
    """

    months: Sequence[str]
    weekdays: Sequence[str]
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

    @property
    def signs(self) -> frozenset[str]:
        """Words of which every time but a year holds one."""
        kinds = (self.months, self.weekdays, self.seasons, self.units.values(), self.days)
        phrases = (phrase for kind in kinds for words in kind for phrase in words.split("|"))
        return frozenset(_WORD.findall(phrase)[-1] for phrase in (*phrases, *self.weekend.split("|")))


@cache
def load_calendars() -> Mapping[str, Calendar]:
    """Return the calendars there are, by the codes of their languages; English first."""
    told = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return {code: _build_calendar(fields) for code, fields in told.items()}


def _build_calendar(fields: Mapping[str, Any]) -> Calendar:
    return Calendar(**{**fields, "may_be_no_time": frozenset(fields["may_be_no_time"])})
