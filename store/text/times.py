"""Finds time spans that a text names. Pure rules; the expressions of a language are in `calendars`."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from re import Match, Pattern

from store.text.calendars import DAYS, FIGURES, Calendar, find_value, load_calendars
from store.text.language_detection import detect_language
from store.text.word_rules import strip_accents

#: Years whose May "in May" may mean.
YEARS = 10
#: Most characters of a text that are read, and most times in it.
CHARACTERS = 2000
MOST_SPANS = 256
#: Characters before a time that are read for what refers to it: "two weeks before ..".
REACH = 64
#: The begin of a span without one, such as "until 2020".
FIRST = datetime(1, 1, 1, tzinfo=UTC)

#: The language of a text without common words of any language.
USUAL = "en"
DAY = timedelta(days=1)

_WORD = re.compile(r"[^\W\d_]+")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")


@dataclass(frozen=True, slots=True, order=True)
class TimeSpan:
    """A span of time from `begin` to `end` (exclusive), both in UTC."""

    begin: datetime
    end: datetime

    @property
    def length(self) -> timedelta:
        """The span's duration."""
        return self.end - self.begin

    def shifted(self, by: timedelta) -> "TimeSpan":
        """Return the span moved by this much."""
        return TimeSpan(self.begin + by, self.end + by)


Read = Callable[[Match[str], datetime, Calendar], Iterable[TimeSpan]]


def find_spans(text: str, today: datetime, *, certain: bool = False) -> list[TimeSpan]:
    """Return the spans of time that a text of `today` names, in the order of their beginning, none twice.

    The text is read by the calendar of its language. A month or a day without a year is that of any of the last years.
    A date that does not exist is skipped. Only the beginning of a long text is read, and only the first times in it: a
    text that names more is a list. `certain`: without weekdays that may be the last one or the next. Takes time in
    proportion to what is read.
    """
    now = today.astimezone(UTC)
    language = detect_language(text)
    # Most texts contain no word of time, and are not searched for each form.
    if not tells_time(text, list_time_words(language)):
        return []
    lower = strip_accents(text[:CHARACTERS].lower())
    found = _spans_in_calendar(lower, now, load_calendars()[language or USUAL], certain=certain)
    return sorted(set(islice(found, MOST_SPANS)))


@cache
def list_time_words(language: str | None) -> frozenset[str]:
    """Return the words of a language of which every time expression but a year holds one; None: the usual language."""
    return load_calendars()[language or USUAL].signs


def tells_time(text: str, time_words: frozenset[str]) -> bool:
    """Return whether the beginning of a text holds one of a language's words of time, or a year."""
    lower = strip_accents(text[:CHARACTERS].lower())
    return not time_words.isdisjoint(_WORD.findall(lower)) or _YEAR.search(lower) is not None


def _spans_in_calendar(text: str, today: datetime, calendar: Calendar, *, certain: bool) -> Iterator[TimeSpan]:
    for pattern, read in _time_forms(calendar):
        for match in pattern.finditer(text):
            try:
                found = [] if certain and _is_of_any_week(match) else list(read(match, today, calendar))
            except (ValueError, OverflowError):
                found = []
            begin, end = match.span()
            yield from _apply_references(found, text[max(0, begin - REACH) : begin], today, calendar)
            # A matched part is not matched again by a less exact form.
            text = f"{text[:begin]}{' ' * (end - begin)}{text[end:]}"


def _is_of_any_week(match: Match[str]) -> bool:
    """Return whether a match is a weekday or weekend without "last", "this" or "next"."""
    told = match.groupdict()
    return bool(told.get("weekday") or told.get("weekend")) and not told.get("which")


def _apply_references(
    found: Sequence[TimeSpan], before: str, today: datetime, calendar: Calendar
) -> Iterator[TimeSpan]:
    """Yield the spans that the words before a time refer to: "two weeks before ..", "since ..", "until .."."""
    away, until, since = _reference_patterns(calendar)
    if match := away.search(before):
        sign = -1 if re.fullmatch(calendar.earlier, match["way"]) else 1
        number, unit = sign * calendar.count(match["n"] or "1"), find_value(calendar.units, match["unit"])
        yield from (_span_around(span, number, unit) for span in found)
    elif until.search(before):
        yield from (TimeSpan(FIRST, span.begin) for span in found)
    elif since.search(before):
        yield from (TimeSpan(span.begin, max(span.end, today + DAY)) for span in found)
    else:
        yield from found


def _span_around(span: TimeSpan, number: float, unit: str) -> TimeSpan:
    """Return the span at a number of units' distance: at least one unit wide, and no narrower than it was."""
    middle = span.begin + span.length / 2 + timedelta(days=number * DAYS[unit])
    half = max(span.length, timedelta(days=DAYS[unit])) / 2
    return TimeSpan(middle - half, middle + half)


@cache
def _reference_patterns(calendar: Calendar) -> tuple[Pattern[str], Pattern[str], Pattern[str]]:
    words = _pattern_alternatives(calendar)
    way = rf"(?P<way>{calendar.earlier}|{calendar.later})"
    end = rf"\s+(?:(?:{calendar.article})\s*)?\Z"
    away = rf"\b(?:(?P<n>{words['number']})|{calendar.article}) (?P<unit>{words['unit']}) {way}{end}"
    return tuple(  # type: ignore[return-value]  # three in, three out
        re.compile(pattern) for pattern in (away, rf"\b(?:{calendar.until}){end}", rf"\b(?:{calendar.since}){end}")
    )


@cache
def _time_forms(calendar: Calendar) -> Sequence[tuple[Pattern[str], Read]]:
    """Return the patterns of times and the function that reads each, the most exact first."""
    words = _pattern_alternatives(calendar)
    day = rf"(?P<day>\d{{1,2}})(?:{calendar.ordinal})?"
    month, year = rf"(?P<month>{words['month']})\.?", r"(?P<year>(?:19|20)\d\d)"
    which = rf"(?P<which>{calendar.last}|{calendar.this}|{calendar.next})"
    of, count, unit = rf"(?:(?:{calendar.of}) )?", rf"(?P<n>{words['number']})", rf"(?P<unit>{words['unit']})"
    forms: tuple[tuple[str, Read], ...] = (
        *((figures, _read_date) for figures in FIGURES),
        (rf"{day} {of}{month},? {of}{year}", _read_date),
        (rf"{month} {day},? {year}", _read_date),
        (rf"{month},? {of}{year}", _read_date),
        (rf"{day} {of}{month}", _read_date),
        (rf"{month} {day}(?! ?\d)", _read_date),
        (rf"{count} {unit} (?:{calendar.ago})", _read_ago),
        (rf"(?:{calendar.ago_before}) {count} {unit}", _read_ago),
        (rf"(?:{calendar.past}) (?:{count} )?{unit}", _read_past),
        *_with_which(calendar, which, of, year),
        (rf"(?P<days>{'|'.join(calendar.days)})", _read_days),
        (rf"(?:(?P<at>{calendar.at}) )?{month}", _month_alone),
        (year, _read_date),
    )
    return [(re.compile(rf"\b(?:{pattern})\b"), read) for pattern, read in forms]


def _with_which(calendar: Calendar, which: str, of: str, year: str) -> Iterator[tuple[str, Read]]:
    """Yield the forms with "last", "this" and "next", which some languages put after the word they belong to."""
    words = _pattern_alternatives(calendar)
    weekend, weekday = rf"(?P<weekend>{calendar.weekend})", rf"(?P<weekday>{words['weekday']})"
    season, month = rf"(?P<season>{words['season']})", rf"(?P<month>{words['month']})"
    kinds: tuple[tuple[str, Read], ...] = (
        (rf"(?P<unit>{words['unit']})", _this_unit),
        (weekend, _read_weekend),
        (weekday, _read_weekday),
        (month, _which_month),
        (season, _read_season),
    )
    if calendar.follows:
        yield from ((rf"{told} {which}", read) for told, read in kinds)
    yield from ((rf"{which} ?{told}", read) for told, read in kinds)
    yield from ((weekend, _read_weekend), (weekday, _read_weekday), (rf"{season}(?: {of}{year})?", _read_season))


@cache
def _pattern_alternatives(calendar: Calendar) -> Mapping[str, str]:
    return {
        "month": "|".join(calendar.months),
        "weekday": "|".join(calendar.weekdays),
        "season": "|".join(calendar.seasons),
        "unit": "|".join(calendar.units),
        "number": calendar.counts,
    }


def _read_date(match: Match[str], today: datetime, calendar: Calendar) -> Iterator[TimeSpan]:
    """Yield the spans of a match with year, month or day: of the smallest unit, in each year where none is given."""
    told = match.groupdict()
    number = told.get("number") or told.get("month")
    month = None if number is None else int(number) if number.isdigit() else find_value(calendar.months, number)
    years = [int(told["year"])] if told.get("year") else range(today.year, today.year - YEARS, -1)
    for year in years:
        if month is None:
            yield TimeSpan(_first_of_month(year, 1), _first_of_month(year + 1, 1))
        elif told.get("day") is None:
            yield _month_span(year, month)
        elif int(told["day"]) <= _month_span(year, month).length.days:
            yield _day_span(_first_of_month(year, month).replace(day=int(told["day"])))


def _month_alone(match: Match[str], today: datetime, calendar: Calendar) -> Iterator[TimeSpan]:
    if match["at"] or match["month"] not in calendar.may_be_no_time:
        yield from _read_date(match, today, calendar)


def _which_month(match: Match[str], today: datetime, calendar: Calendar) -> Iterator[TimeSpan]:
    month = find_value(calendar.months, match["month"])
    found = [_month_span(year, month) for year in range(today.year - 2, today.year + 3)]
    yield _choose_span(found, match["which"], today, calendar)


def _read_season(match: Match[str], today: datetime, calendar: Calendar) -> Iterator[TimeSpan]:
    begins = find_value(calendar.seasons, match["season"])
    told = match.groupdict()
    which = told.get("which")
    if told.get("year"):
        yield _months_span(int(told["year"]), begins, 3)
        return
    if which is None and match["season"] in calendar.may_be_no_time:
        return
    found = [_months_span(year, begins, 3) for year in range(today.year - YEARS, today.year + 2)]
    yield from found if which is None else [_choose_span(found, which, today, calendar)]


def _read_ago(match: Match[str], today: datetime, calendar: Calendar) -> Iterator[TimeSpan]:
    yield _span_around(_day_span(today), -calendar.count(match["n"]), find_value(calendar.units, match["unit"]))


def _read_past(match: Match[str], today: datetime, calendar: Calendar) -> Iterator[TimeSpan]:
    days = calendar.count(match["n"] or "1") * DAYS[find_value(calendar.units, match["unit"])]
    yield TimeSpan(today - timedelta(days=days), today + DAY)


def _this_unit(match: Match[str], today: datetime, calendar: Calendar) -> Iterator[TimeSpan]:
    unit, way = find_value(calendar.units, match["unit"]), _direction_of(match["which"], calendar)
    if unit == "year":
        yield TimeSpan(_first_of_month(today.year + way, 1), _first_of_month(today.year + way + 1, 1))
    elif unit == "month":
        yield _months_span(today.year, today.month + way, 1)
    else:
        begin = _day_span(today).begin - (timedelta(days=today.weekday()) if unit == "week" else timedelta(0))
        long = timedelta(days=DAYS[unit])
        yield TimeSpan(begin, begin + long).shifted(way * long)


def _read_weekend(match: Match[str], today: datetime, calendar: Calendar) -> Iterator[TimeSpan]:
    saturday = _day_span(today).begin - timedelta(days=today.weekday() - 5)
    which = match.groupdict().get("which")
    way = _direction_of(which, calendar) if which else 0 if today >= saturday else -1
    yield TimeSpan(saturday, saturday + 2 * DAY).shifted(way * timedelta(days=7))


def _read_weekday(match: Match[str], today: datetime, calendar: Calendar) -> Iterator[TimeSpan]:
    which = match.groupdict().get("which")
    way = _direction_of(which, calendar) if which else -1
    ahead = (find_value(calendar.weekdays, match["weekday"]) - today.weekday()) % 7
    yield _day_span(today + timedelta(days=ahead if way >= 0 and ahead else ahead + (7 if way > 0 else -7)))


def _read_days(match: Match[str], today: datetime, calendar: Calendar) -> Iterator[TimeSpan]:
    yield _day_span(today + find_value(calendar.days, match["days"]) * DAY)


def _choose_span(found: Sequence[TimeSpan], which: str, today: datetime, calendar: Calendar) -> TimeSpan:
    """Return, of spans in order, the last that is over, the next that has not begun, or the one of this year."""
    way = _direction_of(which, calendar)
    if way < 0:
        return next(span for span in reversed(found) if span.end <= today)
    if way > 0:
        return next(span for span in found if span.begin > today)
    return min(found, key=lambda span: abs(span.begin + span.length / 2 - today))


def _direction_of(which: str, calendar: Calendar) -> int:
    return find_value({calendar.last: -1, calendar.next: 1, calendar.this: 0}, which)


def _day_span(moment: datetime) -> TimeSpan:
    begin = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return TimeSpan(begin, begin + DAY)


def _first_of_month(year: int, month: int) -> datetime:
    return datetime(year + (month - 1) // 12, (month - 1) % 12 + 1, 1, tzinfo=UTC)


def _month_span(year: int, month: int) -> TimeSpan:
    if not 1 <= month <= 12:  # noqa: PLR2004 - months of a year
        raise ValueError(month)
    return _months_span(year, month, 1)


def _months_span(year: int, month: int, count: int) -> TimeSpan:
    return TimeSpan(_first_of_month(year, month), _first_of_month(year, month + count))
