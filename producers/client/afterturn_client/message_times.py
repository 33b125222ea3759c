"""Finds the time at which a message was said, in the forms of many programs. Pure but for `local_times_of`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from afterturn_client.moments import format_utc

#: The accepted range of times; a time outside is a mistake of units.
EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
LATEST = datetime(3000, 1, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: Fields that hold a message's time, the most exact first, each without the signs and capitals of its spellings.
_FIELDS = tuple(
    """
    timestamp timestampms timestampmillis occurredat createdat createtime created createddatetime createddate
    createdtime createdutc createdon datecreated timecreated creationtime creationdate creationtimestamp
    originalarrivaltime dateunixtime unixtime datetime datetimeutc date ts tsms time sentat sent senton senttime
    timesent datesent sentdatetime senttimestamp senddate sendtime originserverts messagetimestamp messagetime
    messagedate createat insertedat postedat posted postedon postdate publishedat published publishedon pubdate
    writtenat writtenon saidat spokenat submittedat recordedat receivedat received receiveddatetime eventtime when at
    internaldate updatedat
    """.split()  # noqa: SIM905 - a list of them would have a line for each
)
_SPELLING = re.compile(r"[\W_]")
#: Of these, the names that hold nothing but a time.
_TIMES_ALONE = ("timestamp", "occurred_at", "created_at", "createdAt")
#: Fields that hold those of a message beside its content.
_BESIDE = ("metadata", "additional_kwargs", "response_metadata")
_NUMBER = re.compile(r"-?\d{1,19}(?:\.\d{1,9})?(?:[eE]\+?\d{1,2})?")
#: Numbers below are seconds, then milliseconds, microseconds and nanoseconds: all of them mean years from 1973 on.
_UNITS = ((1e11, 1.0), (1e14, 1e3), (1e17, 1e6), (1e20, 1e9))
#: A number that would be later, and the nanoseconds that would be earlier, count in another unit or from another year:
#: .NET's ticks, WebKit's microseconds since 1601.
_LAST_OF_NUMBERS, _LEAST_NANOSECONDS = datetime(2200, 1, 1, tzinfo=UTC), 10**18
#: Numbers of eight digits are a date: as seconds they would be of 1970 to 1973. The smallest that is a time.
_DATES, _LEAST_SECONDS = range(19_000_101, 30_000_000), 86_400
#: The number in an object that stands for a time, as MongoDB (within `$date`) and Firestore write it.
_WRAPPED = ("$numberLong", "seconds", "_seconds")
#: The names of the months in English, German, French, Spanish and Italian.
_MONTHS = tuple(
    names.split()
    for names in (
        "january januar janvier enero gennaio",
        "february februar f\u00e9vrier febrero febbraio",
        "march m\u00e4rz mars marzo",
        "april avril abril aprile",
        "may mai mayo maggio",
        "june juni juin junio giugno",
        "july juli juillet julio luglio",
        "august ao\u00fbt agosto",
        "september septembre septiembre settembre",
        "october oktober octobre octubre ottobre",
        "november novembre noviembre",
        "december dezember d\u00e9cembre diciembre dicembre",
    )
)
_DAY_NAME = r"(?:(?:mon|tue|wed|thu|fri|sat|sun|die|mit|don|fre|sam|son)[a-z]*\.?,?\s+)?"
_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.\d+)?)?(?:\s*(?P<half>[ap])\.?m\.?)?"
#: Hours from UTC of abbreviations that RFC 5322 defines, or that mean one zone alone (not `IST`, `BST`).
_ABBREVIATIONS = {
    name: timedelta(hours=float(hours))
    for name, _, hours in (
        told.partition("=")
        for told in """
        est=-5 edt=-4 cst=-6 cdt=-5 mst=-7 mdt=-6 pst=-8 pdt=-7 wet=0 west=1 cet=1 cest=2 mez=1 mesz=2 eet=2 eest=3
        akst=-9 akdt=-8 hst=-10 msk=3 sast=2 eat=3 pkt=5 npt=5.75 wib=7 sgt=8 hkt=8 awst=8 jst=9 kst=9 acst=9.5
        acdt=10.5 aest=10 aedt=11 nzst=12 nzdt=13
        """.split()  # noqa: SIM905 - a list of them would have a line for each
    )
}
_ZONE = r"(?P<utc>utc|gmt|z)?\s*(?:(?P<offset>[+-]\d\d:?\d\d)|(?P<zone>[a-z]{2,5}))?"
#: The zone of times that tell none.
_LOCAL: ContextVar[tzinfo] = ContextVar("local", default=UTC)
#: A day that can be read in one way alone: its month has a name, its year stands first, or full stops are in it.
_DAY = (
    r"(?:(?P<d1>\d{1,2})(?:st|nd|rd|th|\.)?[\s/-]+(?P<m1>[^\W\d_]{3,10})\.?,?[\s/-]+(?P<y1>\d{4})"
    r"|(?P<m2>[a-z]{3,9})\.?\s+(?P<d2>\d{1,2})(?:st|nd|rd|th)?,?\s+(?P<y2>\d{4})"
    r"|(?P<y3>\d{4})[./-](?P<m3>\d{1,2})[./-](?P<d3>\d{1,2})|(?P<d4>\d{1,2})\.(?P<m4>\d{1,2})\.(?P<y4>\d{4}))"
)
_TOLD = re.compile(
    rf"{_DAY_NAME}{_DAY}(?:(?:,?\s+(?:at\s+|um\s+)?|[t:]){_CLOCK}(?:\s*uhr)?)?\s*{_ZONE}\s*(?:utc|gmt)?\s*(?:\([^()]*\)|\[(?P<region>[^\[\]]*)\])?",
    re.IGNORECASE,
)
#: `Wed May 24 10:00:00 2023`, with or without a zone before the year.
_YEAR_LAST = re.compile(
    r"(?P<day>\w{3}\s+\w{3}\s+\d{1,2})\s+(?P<clock>\d\d:\d\d:\d\d)(?P<zone>\s+\S+)?\s+(?P<year>\d{4})"
)
_LONGEST_TOLD = 100
#: The end of a day, which ISO 8601 writes as its 24th hour.
_END_OF_DAY = (24, 0, 0)


@contextmanager
def local_times_of(zone: tzinfo) -> Iterator[None]:
    """Read times without an offset as those of a zone, and its own abbreviations (`IST` of Asia/Kolkata), within it."""
    before = _LOCAL.set(zone)
    try:
        yield
    finally:
        _LOCAL.reset(before)


def place_local(at: datetime) -> datetime:
    """Return a time without an offset in UTC, as one of the zone of `local_times_of`. Raises OverflowError."""
    return at.replace(tzinfo=_LOCAL.get()).astimezone(UTC)


def find_moment(message: Mapping[str, Any]) -> datetime | None:
    """Return the message's time in UTC; None where it has none that can be read.

    A time without an offset is one of UTC, or of the zone of `local_times_of`. Numbers are seconds, milliseconds,
    microseconds or nanoseconds by size.
    """
    places = [message, *(one for name in _BESIDE if isinstance(one := message.get(name), Mapping))]
    for place in places:
        told = {_SPELLING.sub("", name).lower(): value for name, value in place.items() if isinstance(name, str)}
        for name in _FIELDS:
            if name in told and (at := read_time(told[name])) is not None:
                return at
    return None


def find_time(message: Mapping[str, Any]) -> str | None:
    """Return the message's time, as `find_moment` finds it, as RFC 3339 in UTC."""
    at = find_moment(message)
    return None if at is None else format_utc(at)


def find_unreadable_time(message: Mapping[str, Any]) -> str | None:
    """Return the name of a field that tells a time in a form that is not known, where no other one tells it."""
    told = next((name for name in _TIMES_ALONE if message.get(name)), None)
    return told if told is not None and find_moment(message) is None else None


def read_time(value: Any) -> datetime | None:
    """Return a time in UTC; None for what is none, or lies outside the range of the API."""
    if isinstance(value, bool):
        return None
    if isinstance(value, Mapping):
        inner = value.get("$date", value)
        told = next((inner[name] for name in _WRAPPED if name in inner), None) if isinstance(inner, Mapping) else inner
        return None if isinstance(told, Mapping) else read_time(told)
    if isinstance(value, list):
        return _read_numbers(value)
    if isinstance(value, str):
        text = value.strip()
        if not _NUMBER.fullmatch(text):
            return _read_text(text)
        value = float(text)
    return _read_number(value) if isinstance(value, int | float) else None


def _read_number(value: float) -> datetime | None:
    per_second = next((unit for below, unit in _UNITS if abs(value) < below), None)
    if per_second is None or abs(value) < _LEAST_SECONDS:
        return None
    try:
        # Asked about a float, a range compares each of its ten million numbers.
        if (day := int(value)) == value and day in _DATES:
            return _at_midnight(date.fromisoformat(str(day)))
        at = _within_range(EPOCH + timedelta(microseconds=round(value / per_second * 1e6)))
    except (OverflowError, ValueError):
        return None
    is_of_other_unit = per_second == _UNITS[-1][1] and abs(value) < _LEAST_NANOSECONDS
    return None if at is None or at > _LAST_OF_NUMBERS or is_of_other_unit else at


def _read_numbers(value: Sequence[Any]) -> datetime | None:
    """Return the time of a list of year, month, day and what follows, as Java's programs write it."""
    if not 3 <= len(value) <= 6 or not all(isinstance(one, int) for one in value):  # noqa: PLR2004 - year to second
        return None
    try:
        year, month, day, hour, minute, second = (*value, 0, 0, 0)[:6]
        return _within_range(place_local(datetime(year, month, day, hour, minute, second)))  # noqa: DTZ001 - local
    except (OverflowError, ValueError):
        return None


def _read_text(text: str) -> datetime | None:
    try:
        read = datetime.fromisoformat(text.upper())
    except ValueError:
        return _read_told(text)
    try:
        return _within_range(place_local(read) if read.tzinfo is None else read.astimezone(UTC))
    except OverflowError:
        return None


def _read_told(text: str) -> datetime | None:
    """Return the time of a text that tells it otherwise than ISO 8601: as mail, browsers and exports do."""
    told = _YEAR_LAST.fullmatch(text[:_LONGEST_TOLD])
    text = f"{told['day']} {told['year']} {told['clock']}{told['zone'] or ''}" if told else text
    found = _TOLD.fullmatch(text) if len(text) <= _LONGEST_TOLD else None
    if found is None:
        return None
    year, month, day = next((found[f"y{n}"], found[f"m{n}"], found[f"d{n}"]) for n in range(1, 5) if found[f"y{n}"])
    hour, minute, second = (int(found[part] or 0) for part in ("hour", "minute", "second"))
    if found["half"]:
        hour = hour % 12 + (12 if found["half"] in "pP" else 0)
    is_end_of_day = (hour, minute, second) == _END_OF_DAY
    try:
        moment = datetime(  # noqa: DTZ001 - its zone is told below
            int(year), _read_month(month), int(day), 0 if is_end_of_day else hour, minute, second
        )
        at = _place_told(moment, found)
        return None if at is None else _within_range(at + timedelta(days=is_end_of_day))
    except (OSError, OverflowError, ValueError, ZoneInfoNotFoundError):
        return None


def _place_told(at: datetime, found: re.Match[str]) -> datetime | None:
    """Return the time in UTC by the zone that a text tells; None for an abbreviation that means several zones."""
    if found["zone"]:
        if place_local(at).astimezone(_LOCAL.get()).strftime("%Z").lower() == found["zone"].lower():
            return place_local(at)
        offset = _ABBREVIATIONS.get(found["zone"].lower())
        return None if offset is None else at.replace(tzinfo=UTC) - offset
    if found["utc"] or found["offset"]:
        return at.replace(tzinfo=UTC) - _read_offset(found["offset"])
    return at.replace(tzinfo=ZoneInfo(found["region"])).astimezone(UTC) if found["region"] else place_local(at)


def _read_month(told: str) -> int:
    """Return the number of a month that is told by a number or by its name, which may be shortened; 0 for any other."""
    if told.isdecimal():
        return int(told)
    return next((n for n, names in enumerate(_MONTHS, 1) if any(one.startswith(told.lower()) for one in names)), 0)


def _read_offset(told: str | None) -> timedelta:
    if told is None:
        return timedelta()
    size = timedelta(hours=int(told[1:3]), minutes=int(told[-2:]))
    return -size if told.startswith("-") else size


def _at_midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _within_range(at: datetime) -> datetime | None:
    return at if EARLIEST <= at < LATEST else None
