"""Parses chats as WhatsApp and Signal export them: a message a line, with date, clock and name.

`[05.05.24, 10:00:00] Kim: text` from an iPhone, `05/05/24, 10:00 - Kim: text` from Android. A date with full stops has
the day first. Of other dates the file itself decides which of two numbers is the month: one of them is above 12, or
messages would go back in time. A file that decides nothing is refused, and `--dates` says it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from afterturn_client.message_times import place_local
from afterturn_client.turns import Message, NewTurn

from deploy.ingest_formats.bounded_lines import read_lines
from deploy.ingest_formats.parsed import BadLine, Parsed, TurnNames, Unrecognised, check_turn
from store.text.pattern_tables import Patterns

_PATTERN = Patterns(Path(__file__).parent / "data" / "whatsapp.toml")

_DATE = r"(?P<a>\d{1,4})(?P<sign>[./-])\s?(?P<b>\d{1,2})[./-]\s?(?P<c>\d{2,4})\.?(?:\s?\u0433\.)?"
#: The half of the day before or behind the clock, and the second one.
_HALVES = r"[AaPp]\.?\s?[Mm]\.?|上午|下午|凌晨|早上|中午|晚上|午前|午後|오전|오후|ص|م"
_HALVES = rf"{_HALVES}|[πμ]\.?\s?μ\.?|PG|PTG|SA|CH|ÖÖ|ÖS|ก่อนเที่ยง|หลังเที่ยง|de\.|du\.|dop\.|odp\."
_SECOND_HALF = re.compile(r"[Pp](?!G)|下午|中午|晚上|午後|오후|م|μ|CH|ÖS|หลัง|du|od")
_CLOCK = (
    rf"(?:(?P<before>{_HALVES})\s?)?(?P<hour>\d{{1,2}})[:.](?P<minute>\d\d)(?:[:.](?P<second>\d\d))?"
    rf"(?:\s?(?P<half>{_HALVES}))?"
)
#: What stands between date and clock: a comma, and in some languages a word (`klo`, `à`).
_BETWEEN = r"[,،]?\s+(?:[^\W\d_]{1,4}\.?\s+)??"
#: The marks of direction that the export puts before and into a line.
_MARK = "\u200e"
_MARKS = dict.fromkeys(map(ord, "\u200f\u202a\u202c\u2068\u2069\ufeff"))
_BEGINNINGS = (
    re.compile(rf"\[{_DATE}{_BETWEEN}{_CLOCK}\]\s+(?P<rest>.*)"),
    re.compile(rf"{_DATE}{_BETWEEN}{_CLOCK}\s+-\s+(?P<rest>.*)"),
    re.compile(rf"{_DATE}\s+(?=[오午]){_CLOCK},\s+(?P<rest>.*)"),
    re.compile(rf"{_CLOCK},?\s+{_DATE}\s+-\s+(?P<rest>.*)"),
    re.compile(rf"\[{_CLOCK},?\s+{_DATE}\]\s+(?P<rest>.*)"),
)
_MONTHS, _HALF_DAY, _CENTURY = 12, 12, 2000
#: The years that the Buddhist calendar has now, and by how much they are ahead.
_BUDDHIST_YEARS, _BUDDHIST_ERA = range(2500, 2700), 543
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

    `dotted`: the date's numbers stand between full stops. `bracketed`: date and clock stand in brackets, as an iPhone
    writes them.
    """

    line: int
    date: tuple[int, int, int]
    clock: tuple[int, int, int]
    name: str
    lines: list[str] = field(repr=False)
    offset: int = 0
    dotted: bool = False
    bracketed: bool = False


def begins_as_whatsapp(lines: Sequence[str]) -> bool:
    """Return whether the first of these lines begins as WhatsApp's do, with date and clock, and one has a name."""
    said = [_read_beginning(line.translate(_MARKS), 0) for line in lines if line.strip()]
    return bool(said) and said[0] is not None and any(one is not None and one.name for one in said)


def parse_whatsapp(stream: BinaryIO, session: str, longest: int, dates: DateOrder | None = None) -> Iterator[Parsed]:
    """Yield each message as a turn; a line without a date goes on with the message before it.

    Times have no zone: they are local (`local_times_of`). Lines that tell of the group (who joined, encryption) are
    left out, and so is what the program writes in the place of a picture, a file or a deleted message. A file whose
    dates have two meanings, of which neither `dates` nor the file itself chooses one, is Unrecognised.
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
    for one in filter(_take_own_words, found):
        if one.name:
            yield _build_turn(one, session, names, is_month_first=is_month_first)


def _take_own_words(one: _Found) -> bool:
    """Take what the program wrote out of a message; return whether anything was said."""
    first = one.lines[0].strip()
    told = first.lstrip(_MARK)
    is_marked = told != first
    is_news = is_marked and one.bracketed and len(one.lines) == 1 and not _PATTERN.sent_marked.fullmatch(told)
    is_left_out = _PATTERN.left_out.fullmatch(told) or (is_marked and _PATTERN.left_out_marked.fullmatch(told))
    own = is_news or bool(is_left_out)
    one.lines[:1] = [] if own else [first]
    if one.lines:
        one.lines[-1] = _PATTERN.edited.sub("", one.lines[-1].rstrip())
    written = [line.replace(_MARK, "") for line in one.lines]
    one.lines[:] = _drop_quote(written)
    return (not own and one.lines == written) or any(line.strip() for line in one.lines)


def _drop_quote(lines: list[str]) -> list[str]:
    """Return a message's lines without what Signal's export writes beside the words, and without what these answer.

    That stands on lines with `>` below an empty first one; a person who quotes begins on the line of the name.
    """
    lines = [line for line in lines if not _PATTERN.beside_in_signal.fullmatch(line.strip())]
    if lines and not lines[0].strip():
        own = (nth for nth, line in enumerate(lines) if line.strip() and not line.startswith(">"))
        return lines[next(own, len(lines)) :]
    return [] if len(lines) == 1 and _PATTERN.call_in_signal.fullmatch(lines[0].strip()) else lines


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
    text = text.lstrip(_MARK)
    found = next((found for beginning in _BEGINNINGS if (found := beginning.fullmatch(text))), None)
    if found is None:
        return None
    given = found.groupdict()
    hour = int(given["hour"])
    if half := given["before"] or given["half"]:
        hour = hour % _HALF_DAY + (_HALF_DAY if _SECOND_HALF.match(half) else 0)
    spoken = _PATTERN.spoken.fullmatch(found["rest"])
    date = int(given["a"]), int(given["b"]), int(given["c"])
    clock = hour, int(given["minute"]), int(given["second"] or 0)
    name, said = (spoken["name"].strip(f" ~{_MARK}\u202f"), spoken["text"] or "") if spoken else ("", found["rest"])
    is_bracketed = text.startswith("[")
    return _Found(number, date, clock, name, [said], dotted=given["sign"] == ".", bracketed=is_bracketed)


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
    if year in _BUDDHIST_YEARS:
        year -= _BUDDHIST_ERA
    try:
        year = year if year >= _CENTURY // 20 else _CENTURY + year
        return place_local(datetime(year, month, day, *one.clock))  # noqa: DTZ001 - local
    except (OverflowError, ValueError):
        return None
