"""Parses chats as WhatsApp exports them: a message a line, with date, clock and name.

`[05.05.24, 10:00:00] Kim: text` from an iPhone, `05/05/24, 10:00 - Kim: text` from Android.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import BinaryIO

from afterturn_client.turns import Message, NewTurn

from deploy.cli.bounded_lines import read_lines
from deploy.cli.parsed import BadLine, Parsed, TurnNames, check_turn

_DATE = r"(?P<a>\d{1,4})[./-](?P<b>\d{1,2})[./-](?P<c>\d{2,4})"
_CLOCK = r"(?P<hour>\d{1,2})[:.](?P<minute>\d\d)(?:[:.](?P<second>\d\d))?(?:\s?(?P<half>[AaPp])\.?\s?[Mm]\.?)?"
#: The marks of direction that the export puts before and into a line.
_MARKS = dict.fromkeys(map(ord, "\u200e\u200f\u202a\u202c\ufeff"))
_BEGINNINGS = (
    re.compile(rf"\[{_DATE},?\s+{_CLOCK}\]\s+(?P<rest>.*)"),
    re.compile(rf"{_DATE},?\s+{_CLOCK}\s+-\s+(?P<rest>.*)"),
)
_SPOKEN = re.compile(r"(?P<name>[^:]{1,128}?):\s(?P<text>.*)")
_MONTHS, _HALF_DAY, _CENTURY = 12, 12, 2000


@dataclass
class _Found:
    """A message as it is read: its line, the numbers of its date and clock, who said it and the lines that it has."""

    line: int
    date: tuple[int, int, int]
    clock: tuple[int, int, int]
    name: str
    lines: list[str] = field(repr=False)
    offset: int = 0


def begins_as_whatsapp(lines: Sequence[str]) -> bool:
    """Return whether the first of these lines begins as WhatsApp's do, with date and clock, and one has a name."""
    said = [_read_beginning(line.translate(_MARKS), 0) for line in lines if line.strip()]
    return bool(said) and said[0] is not None and any(one is not None and one.name for one in said)


def parse_whatsapp(stream: BinaryIO, session: str, longest: int) -> Iterator[Parsed]:
    """Yield each message as a turn; a line without a date goes on with the message before it.

    Times have no zone, and are taken as UTC. Lines that tell of the group (who joined, encryption) are left out.
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
    is_month_first = _is_month_first(found)
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
    return _Found(number, date, clock, name, [said])


def _is_month_first(found: Sequence[_Found]) -> bool:
    """Return whether dates of this file have the month before the day: where a day could not be one otherwise."""
    return any(one.date[1] > _MONTHS for one in found) and not any(
        _MONTHS < one.date[0] < _CENTURY // 10 for one in found
    )


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
