"""Parses chats as WhatsApp exports them: a message a line, with date, clock and name.

`[05.05.24, 10:00:00] Kim: text` from an iPhone, `05/05/24, 10:00 - Kim: text` from Android. A date with full stops has
the day first. Of other dates the file itself decides which of two numbers is the month: one of them is above 12, or
messages would go back in time. A file that decides nothing is refused, and `--dates` says it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import BinaryIO

from afterturn_client.turns import Message, NewTurn

from deploy.cli.bounded_lines import read_lines
from deploy.cli.parsed import BadLine, Parsed, TurnNames, Unrecognised, check_turn

_DATE = r"(?P<a>\d{1,4})(?P<sign>[./-])(?P<b>\d{1,2})[./-](?P<c>\d{2,4})"
_CLOCK = r"(?P<hour>\d{1,2})[:.](?P<minute>\d\d)(?:[:.](?P<second>\d\d))?(?:\s?(?P<half>[AaPp])\.?\s?[Mm]\.?)?"
#: The marks of direction that the export puts before and into a line.
_MARKS = dict.fromkeys(map(ord, "\u200e\u200f\u202a\u202c\ufeff"))
_BEGINNINGS = (
    re.compile(rf"\[{_DATE},?\s+{_CLOCK}\]\s+(?P<rest>.*)"),
    re.compile(rf"{_DATE},?\s+{_CLOCK}\s+-\s+(?P<rest>.*)"),
)
_SPOKEN = re.compile(r"(?P<name>[^:]{1,128}?):\s(?P<text>.*)")
_MONTHS, _HALF_DAY, _CENTURY = 12, 12, 2000
#: What an undecided file is refused with.
UNDECIDED = (
    "its dates can be read with the day or with the month first, and nothing in it tells which: give --dates day-first "
    "(01/02/2026 is 1 February) or --dates month-first (2 January)"
)


class DateOrder(StrEnum):
    """Which number of a date is the month."""

    DAY_FIRST = "day-first"
    MONTH_FIRST = "month-first"


@dataclass
class _Found:
    """A message as it is read: its line, the numbers of its date and clock, who said it and the lines that it has.

    `dotted`: the date's numbers stand between full stops.
    """

    line: int
    date: tuple[int, int, int]
    clock: tuple[int, int, int]
    name: str
    lines: list[str] = field(repr=False)
    offset: int = 0
    dotted: bool = False


def begins_as_whatsapp(lines: Sequence[str]) -> bool:
    """Return whether the first of these lines begins as WhatsApp's do, with date and clock, and one has a name."""
    said = [_read_beginning(line.translate(_MARKS), 0) for line in lines if line.strip()]
    return bool(said) and said[0] is not None and any(one is not None and one.name for one in said)


def parse_whatsapp(stream: BinaryIO, session: str, longest: int, dates: DateOrder | None = None) -> Iterator[Parsed]:
    """Yield each message as a turn; a line without a date goes on with the message before it.

    Times have no zone, and are taken as UTC. Lines that tell of the group (who joined, encryption) are left out. A file
    whose dates have two meanings, of which neither `dates` nor the file itself chooses one, is Unrecognised.
    """
    found: list[_Found] = []
    for line in read_lines(stream, longest):
        if line.text is None:
            yield BadLine(line.number, line.error, line.offset)
        elif (message := _read_beginning(line.text.translate(_MARKS), line.number)) is not None:
            message.offset = line.offset
            found.append(message)
        elif found:
            found[-1].lines.append(line.text)
            found[-1].offset = line.offset
        elif line.text.strip():
            yield BadLine(line.number, "neither a message of WhatsApp nor the rest of one", line.offset)
    order = dates or _find_order(found)
    if order is None:
        yield Unrecognised(found[0].line, UNDECIDED, found[-1].offset)
        return
    is_month_first = order is DateOrder.MONTH_FIRST
    names = TurnNames()
    for one in found:
        if one.name:
            yield _build_turn(one, session, names, is_month_first=is_month_first)


def _build_turn(one: _Found, session: str, names: TurnNames, *, is_month_first: bool) -> Parsed:
    at = _build_time(one, is_month_first=is_month_first)
    if at is None:
        return BadLine(one.line, "holds a date that does not exist", one.offset)
    text = "\n".join(one.lines).strip()
    if not text:
        return BadLine(one.line, "is blank", one.offset)
    key = names.digest("user", one.name, at.isoformat(), text)
    turn = NewTurn(session, [Message("user", text, one.name, at)], names.take(key))
    return check_turn(turn, one.line, one.offset)


def _read_beginning(text: str, number: int) -> _Found | None:
    found = next((found for beginning in _BEGINNINGS if (found := beginning.fullmatch(text))), None)
    if found is None:
        return None
    given = found.groupdict()
    hour = int(given["hour"])
    if half := given["half"]:
        hour = hour % _HALF_DAY + (_HALF_DAY if half in "Pp" else 0)
    spoken = _SPOKEN.fullmatch(found["rest"])
    date = int(given["a"]), int(given["b"]), int(given["c"])
    clock = hour, int(given["minute"]), int(given["second"] or 0)
    name, said = (spoken["name"].strip(), spoken["text"]) if spoken else ("", found["rest"])
    return _Found(number, date, clock, name, [said], dotted=given["sign"] == ".")


def _find_order(found: Sequence[_Found]) -> DateOrder | None:
    """Return which number of the file's dates is the month; None where both readings are possible and differ."""
    slashed = [one for one in found if not one.dotted and one.date[0] < _CENTURY // 20]
    firsts, seconds = (any(one.date[place] > _MONTHS for one in slashed) for place in (0, 1))
    if firsts != seconds:
        return DateOrder.DAY_FIRST if firsts else DateOrder.MONTH_FIRST
    if firsts or all(one.date[0] == one.date[1] for one in slashed):
        return DateOrder.DAY_FIRST
    possible = [order for order in DateOrder if _goes_forward(slashed, order)]
    return possible[0] if len(possible) == 1 else None


def _goes_forward(found: Sequence[_Found], order: DateOrder) -> bool:
    """Return whether no message is of an earlier day than the one before it, with dates read so."""
    times = [_build_time(one, is_month_first=order is DateOrder.MONTH_FIRST) for one in found]
    days = [at.date() for at in times if at is not None]
    return days == sorted(days)


def _build_time(one: _Found, *, is_month_first: bool) -> datetime | None:
    a, b, c = one.date
    if a >= _CENTURY // 20:  # the year comes first
        year, month, day = a, b, c
    else:
        (month, day), year = ((a, b) if is_month_first else (b, a)), c
    try:
        return datetime(year if year >= _CENTURY // 20 else _CENTURY + year, month, day, *one.clock, tzinfo=UTC)
    except ValueError:
        return None
