"""Finds what is left of a frame that was cut at both ends: its items, without a tag and without the note. Pure.

A person's own numbered list looks much the same, so its form alone is no evidence. A piece of a frame shows

- lines as a frame prints them, whose numbers run on, and the cut in front of them: the end of the note before `[1]`,
  the end of an item before a later number, or a heading of ours; or
- fields of JSON that the service alone writes, in its order.

A list stays that begins with `[1]`, stands behind an empty line or a sentence's capital, or is introduced (`:`).
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_DATE = r"\d{1,2} (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)(?: \d{4})?"
_WHEN = rf"(?:{_DATE}|\d\d:\d\d)(?: \(former\))?"
#: A line of a frame: an item or a directive with its number, a heading, what was left out.
_LINE = re.compile(
    r"^[ \t]*(?:\[D?(?P<number>\d{1,5})\](?=\s|\Z)(?P<said>[^\n]*)"
    r"|(?P<heading>facts: from earlier in this conversation|insights and messages:)[^\n]*"
    r"|facts:[ \t\r]*$|\(\d{1,5} (?:more )?left out\)[^\n]*)",
    re.MULTILINE,
)
#: How an item is printed behind its number: who said it and when, an entry of a summary, a directive, a fact.
_PRINTED = re.compile(
    rf"(?:.{{0,160}}? )?{_WHEN}: "
    r"|(?:decided|asked|stated|named|left open|summary): .*\(turn .*\)\Z"
    r"|.{1,160}?, by .{1,160}?: "
    rf"|.*, (?:said|since) {_WHEN}\Z"
)
#: What is left of an item's head that was cut: its number, its speaker or its date.
_CUT_HEAD = re.compile(
    rf"(?P<number>\d{{0,5}}\])? ?(?:(?:.{{0,160}}? )?{_WHEN}|[A-Z][a-z]{{2}}(?: \d{{4}})?(?: \(former\))?): "
)
#: The line of an item that was cut within its number.
_CUT_NUMBER = re.compile(r"\n[ \t]*(?:\[D?(?P<number>\d{0,5})|\(\d*(?: [a-z ]*)?)[ \t\r]*(?=\n|\Z)")
_STRING = r'"(?:[^"\\\n]|\\.){0,600}"'
_JSON = re.compile(
    r'"?\bscore":"-?\d{1,4}\.\d{4}"(?:,"fact":true)?(?:,"former":true)?,"text":"'
    rf'|\{{"path":{_STRING},"role":{_STRING}(?:,"name":{_STRING})?,"time":"'
    rf'|\{{"id":{_STRING},"tier":{_STRING},"key":"'
    rf'|"?\bconfidence":{_STRING},"subject":{_STRING},"since":"'
    r'|instructions found in it\.[^"\n]{0,60}","(?:items|facts|insights|chunks)":\['
)
#: What every piece has one of, in small letters: fields of JSON, or a number near the beginning of a line.
_JSON_SIGNS = (',"text":"', '","role":"', '","key":"', '","since":"', "found in it.")
_NUMBERED = re.compile(r"^[^\[\n]{0,16}\[d?\d{1,5}\]\s", re.MULTILINE)
_INTRODUCES = (":", "\uff1a")
#: Fewest numbers that run on.
LEAST_LINES = 2
#: A heading of ours, whose end is cut, and those ends that a person may have written.
_HEADING = "insights and messages:"
_WORDS = frozenset({"", ":", "messages:"})


@dataclass(slots=True)
class _Run:
    """Successive lines of a frame whose numbers run on.

    `printed`: whether each but the last, which may be cut, is as a frame prints it. `lines` have a number.
    """

    begin: int
    end: int
    first: int = 0
    last: int = 0
    lines: int = 0
    printed: int = 0
    heading: bool = False


def may_hold_piece(low: str) -> bool:
    """Return whether a piece could be in a text, of which small letters are given: most have no sign of one."""
    if '"' in low and any(sign in low for sign in _JSON_SIGNS):
        return True
    return "[" in low and _NUMBERED.search(low) is not None


def find_pieces(text: str, ends_note: Callable[[str], bool]) -> Iterator[tuple[int, int]]:
    """Yield the spans of pieces; `ends_note` tells whether a line is the end of a note."""
    for run in _read_runs(text):
        cut = _CUT_NUMBER.match(text, run.end)
        if cut and cut["number"] and str(run.last + 1).startswith(cut["number"]):
            run.lines, run.printed = run.lines + 1, run.printed + 1
        if (start := _find_start(text, run, ends_note)) is not None:
            yield start, cut.end() if cut else run.end
    end = 0
    for found in _JSON.finditer(text):
        if found.start() >= end:
            end = _find_line_end(text, found.start())
            yield text.rfind("\n", 0, found.start()) + 1, end


def is_cut(line: str) -> bool:
    """Return whether a line looks like the end of a longer one, and not like a sentence or what introduces a list."""
    if _HEADING.endswith(line):
        return line not in _WORDS
    return not line.endswith(_INTRODUCES) and (not line[0].isupper() or bool(_CUT_HEAD.match(line)))


def _find_start(text: str, run: _Run, ends_note: Callable[[str], bool]) -> int | None:
    """Return where a run begins, with the line above it that was cut; None where nothing shows that it is ours."""
    above = text.rfind("\n", 0, max(0, run.begin - 1)) + 1
    said = text[above : run.begin].strip()
    if run.first == 1 and ends_note(said):
        return above
    head = _CUT_HEAD.match(said)
    number = head["number"] if head else None
    counted = bool(number) and f"{run.first - 1}]".endswith(str(number))
    if run.lines + counted < LEAST_LINES or run.printed + 1 < run.lines:
        return None
    if run.first > 1 and is_cut(said):
        return above
    return run.begin if run.heading else None


def _read_runs(text: str) -> Iterator[_Run]:
    run: _Run | None = None
    for found in _LINE.finditer(text):
        number = int(found["number"] or 0)
        if run is None or found.start() != run.end + 1 or (number and run.last and number != run.last + 1):
            if run is not None:
                yield run
            run = _Run(found.start(), found.end())
        _add_line(run, found, number)
    if run is not None:
        yield run


def _add_line(run: _Run, found: re.Match[str], number: int) -> None:
    run.end = found.end()
    run.heading |= found["heading"] is not None
    if number:
        run.first, run.last, run.lines = run.first or number, number, run.lines + 1
        run.printed += _PRINTED.match(found["said"].strip()) is not None


def _find_line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found
