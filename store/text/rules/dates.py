"""Dates in a text, each with the day it means where only one can be meant."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from store.text.calendars import DAYS, find_value, load_calendars
from store.text.rules.model import TextSpan

_ENGLISH = load_calendars()["en"]
# Words as well as months: only with a capital, or with a day: "march 3rd".
_ALSO_WORDS = frozenset({"may", "mar", "march"})
_ORDINAL = re.compile(r"\d(?:st|nd|rd|th)\b", re.IGNORECASE)
_TWELVE = 12
_WEEK = 7
#: A date without a year means the day at most this far ahead,
AHEAD = timedelta(days=183)
#: or at most this far back.
BACK = timedelta(days=92)

# Gaps are bounded: no run of spaces is walked twice.
_S = r"\s{1,3}"
_LONG_MONTH = rf"(?:{'|'.join(_ENGLISH.full_months)})"
_SHORT_MONTHS = [name for names in _ENGLISH.months for name in names.split("|")[1:]]
_MONTH = rf"(?P<month>{_LONG_MONTH}|(?:{'|'.join(_SHORT_MONTHS)})\b\.?)"
_WEEKDAY = rf"(?P<weekday>{'|'.join(_ENGLISH.weekdays)})"
_ON_WEEKDAY = rf"(?:{_WEEKDAY},?{_S}(?:the{_S})?)?"
_DAY = r"(?P<day>(?:[12]\d|3[01]|0?[1-9]))(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_THEN_YEAR = rf"(?:,?{_S}{_YEAR})?"
# "A couple", of two words, is not as many as it says.
_NUMBERS = [word for words in _ENGLISH.numbers for word in words.split("|") if " " not in word]
_COUNT = rf"(?P<count>\d{{1,3}}|{'|'.join(_NUMBERS)})"
_VAGUE = f"(?:{'|'.join(_ENGLISH.vague)})".replace(" ", _S)
_UNIT = rf"(?P<unit>{'|'.join(_ENGLISH.units)})"
_SEASON = f"(?:{'|'.join(_ENGLISH.seasons)})"
_SPAN = f"(?:week|weekend|month|year|{_SEASON})"
_BEFORE_SPAN = "in|since|until|till|by|from|before|after|during|of|late|early|mid|this|next|last|around"
_BEFORE_WEEKDAY = "on|by|until|till|since|before|after"
_OPENS, _CLOSES = r"(?<![\w.,:/-])", r"(?![\w%]|[:/.,-]\d)"


class NoDateError(Exception):
    """The text looks like a date and is none: 31 February, or "may" without a capital."""


Meaning = Callable[[re.Match[str], date | None], date | None]


@dataclass(frozen=True, slots=True)
class Form:
    """A way to write a date; a text without any of the `needs` is not searched for it."""

    pattern: re.Pattern[str]
    meaning: Meaning
    needs: tuple[str, ...]


def _read_numeric(match: re.Match[str], _: date | None) -> date | None:
    year, first, second = (int(match[name]) for name in ("year", "first", "second"))
    if match["mark"] == "-":
        return _build_date(year, first, second)
    if match["mark"] == "." or first > _TWELVE or first == second:
        return _build_date(year, second, first)
    if second > _TWELVE:
        return _build_date(year, first, second)
    return None


def _read_written(match: re.Match[str], said: date | None) -> date | None:
    month, day, weekday = _month_number(match), int(match["day"]), _weekday_number(match)
    if match["year"]:
        found = _build_date(int(match["year"]), month, day)
        return found if weekday in (None, found.weekday()) else None
    _build_date(2024, month, day)
    return _nearest_day(said, month, day, weekday) if said else None


def _month_alone(match: re.Match[str], _: date | None) -> None:
    _month_number(match)


def _no_day(_match: re.Match[str], _said: date | None) -> None:
    return None


def _relative_weekday(match: re.Match[str], said: date | None) -> date | None:
    weekday = _weekday_number(match)
    if said is None or weekday is None:
        return None
    which = {"next": _next_weekday, "last": _last_weekday, "this": _this_weekday}
    return find_value(which, match["which"])(said, weekday)


def _day_word(match: re.Match[str], said: date | None) -> date | None:
    return _shift_day(said, find_value(_ENGLISH.days, " ".join(match["word"].split()))) if said else None


def _read_counted(match: re.Match[str], said: date | None) -> date | None:
    unit = find_value(_ENGLISH.units, match["unit"])
    if said is None or unit in {"month", "year"}:
        return None
    days = int(_ENGLISH.count(match["count"]) * DAYS[unit])
    return _shift_day(said, -days if match.groupdict().get("ago") else days)


def _month_number(match: re.Match[str]) -> int:
    word = match["month"].rstrip(".")
    if word.islower() and word in _ALSO_WORDS and _ORDINAL.search(match[0]) is None:
        raise NoDateError
    return find_value(_ENGLISH.months, word)


def _weekday_number(match: re.Match[str]) -> int | None:
    word = match["weekday"]
    return find_value(_ENGLISH.weekdays, word) if word else None


def _build_date(year: int, month: int, day: int) -> date:
    if (found := _date_or_none(year, month, day)) is None:
        raise NoDateError
    return found


def _build_form(pattern: str, meaning: Meaning, *needs: str) -> Form:
    return Form(re.compile(pattern, re.IGNORECASE), meaning, needs)


_YEARS = ("19", "20")
_MONTHS = tuple(name[:3] for name in _ENGLISH.full_months)

FORMS = (
    _build_form(rf"{_OPENS}{_YEAR}(?P<mark>-)(?P<first>\d\d)-(?P<second>\d\d)(?!\d|-\d)", _read_numeric, "-0", "-1"),
    _build_form(
        rf"{_OPENS}(?P<first>\d{{1,2}})(?P<mark>[./])(?P<second>\d{{1,2}})(?P=mark){_YEAR}{_CLOSES}",
        _read_numeric,
        *(f"{mark}{year}" for mark in "./" for year in _YEARS),
    ),
    _build_form(rf"{_OPENS}{_ON_WEEKDAY}{_DAY}{_S}(?:of{_S})?{_MONTH}{_THEN_YEAR}{_CLOSES}", _read_written, *_MONTHS),
    _build_form(rf"{_OPENS}{_ON_WEEKDAY}{_MONTH}{_S}(?:the{_S})?{_DAY}{_THEN_YEAR}{_CLOSES}", _read_written, *_MONTHS),
    _build_form(rf"(?<!\d\s)\b{_MONTH},?{_S}{_YEAR}{_CLOSES}", _month_alone, *_YEARS),
    _build_form(rf"\b(?:{_BEFORE_SPAN}){_S}(?P<only>(?P<month>{_LONG_MONTH}))\b(?!{_S}\d)", _month_alone, *_MONTHS),
    _build_form(
        rf"\b(?:in|since|until|till|by|from|before|after|during){_S}(?P<only>{_YEAR}){_CLOSES}", _no_day, *_YEARS
    ),
    _build_form(rf"\b(?P<which>next|last|this){_S}{_WEEKDAY}\b", _relative_weekday, "day"),
    _build_form(rf"\b(?:{_BEFORE_WEEKDAY}){_S}(?P<only>{_WEEKDAY})\b", _no_day, "day"),
    _build_form(
        rf"\b(?P<word>{'|'.join(_ENGLISH.days).replace(' ', _S)})\b",
        _day_word,
        *("day", "night", "morning", "afternoon", "evening", "tomorrow"),
    ),
    _build_form(rf"\b{_COUNT}{_S}{_UNIT}{_S}(?:(?P<ago>ago)|from{_S}now)\b", _read_counted, "ago", "now"),
    _build_form(rf"\bin{_S}{_COUNT}{_S}{_UNIT}\b(?!{_S}of\b)", _read_counted, *_ENGLISH.units.values()),
    _build_form(rf"\b{_VAGUE}{_S}{_UNIT}{_S}ago\b", _no_day, "ago"),
    _build_form(rf"\b(?:next|last|this){_S}{_SPAN}\b(?!['\u2019]s)", _no_day, "next", "last", "this"),
    _build_form(rf"\b{_SEASON}{_S}(?:of{_S})?{_YEAR}{_CLOSES}", _no_day, *_YEARS),
    _build_form(rf"\bfrom{_S}(?:19|20)\d\d{_S}(?:to|until|till){_S}(?P<only>{_YEAR}){_CLOSES}", _no_day, "from"),
)


@dataclass(frozen=True, slots=True)
class Dated:
    """A date in a text and the day it means, None where that is not certain."""

    span: TextSpan
    day: date | None


def find_dates(text: str, said: date | None) -> list[Dated]:
    """Return the dates of a text in its order, none inside another; `said` is the day it was said (UTC)."""
    found = sorted(_date_candidates(text, said), key=lambda dated: (dated.span.start, -dated.span.end))
    kept: list[Dated] = []
    for dated in found:
        if not kept or dated.span.start >= kept[-1].span.end:
            kept.append(dated)
    return kept


def _date_candidates(text: str, said: date | None) -> Iterator[Dated]:
    low = text.lower()
    for form in FORMS:
        if any(need in low for need in form.needs):
            yield from _written_so(form, text, said)


def _written_so(form: Form, text: str, said: date | None) -> Iterator[Dated]:
    for match in form.pattern.finditer(text):
        try:
            day = form.meaning(match, said)
        except NoDateError:
            continue
        span = match.span("only") if "only" in form.pattern.groupindex else match.span()
        yield Dated(TextSpan(*span), day)


def _date_or_none(year: int, month: int, day: int) -> date | None:
    """Return the date, or None where the calendar has no such day."""
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _shift_day(said: date, days: int) -> date | None:
    """Return the day this many days later (or earlier), or None beyond the calendar."""
    try:
        return said + timedelta(days=days)
    except OverflowError:
        return None


def _nearest_day(said: date, month: int, day: int, weekday: int | None) -> date | None:
    """Return the one day of that month and day that is near enough to be meant, None if none is.

    With a weekday (Monday is 0) the year is the one around `said` in which both agree.
    """
    years = (said.year - 1, said.year, said.year + 1)
    days = [found for year in years if (found := _date_or_none(year, month, day))]
    if weekday is not None:
        agreeing = [found for found in days if found.weekday() == weekday]
        return agreeing[0] if len(agreeing) == 1 else None
    near = [found for found in days if -BACK <= found - said <= AHEAD]
    return near[0] if near else None


def _next_weekday(said: date, weekday: int) -> date | None:
    """Return that weekday of next week; None while this week's is still ahead, since the words can mean both."""
    ahead = (weekday - said.weekday()) % _WEEK or _WEEK
    in_next_week = weekday - said.weekday() + _WEEK
    return _shift_day(said, ahead) if ahead == in_next_week else None


def _last_weekday(said: date, weekday: int) -> date | None:
    """Return that weekday of last week; None once this week's is over, since the words can mean both."""
    back = (said.weekday() - weekday) % _WEEK or _WEEK
    in_last_week = said.weekday() - weekday + _WEEK
    return _shift_day(said, -back) if back == in_last_week else None


def _this_weekday(said: date, weekday: int) -> date | None:
    """Return that weekday of this week (from Monday on), None when it is already over."""
    ahead = weekday - said.weekday()
    return _shift_day(said, ahead) if ahead >= 0 else None
