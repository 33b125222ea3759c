"""Parses the chat of a meeting that Zoom saves: `10:02:15 From Kim to Everyone:` and the words, behind it or below.

A message that answers begins with what it answers, which is not its sender's; reactions are messages of their own.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import dropwhile

from deploy.ingest_formats.bounded_lines import read_lines
from deploy.ingest_formats.parsed import Parsed, Unrecognised, find_unreadable, merge_by_line
from deploy.ingest_formats.spoken import Spoken, build_spoken_turns
from deploy.ingest_formats.text_source import TextSource

_HEAD = re.compile(
    r"(?P<hours>\d\d):(?P<minutes>\d\d):(?P<seconds>\d\d)[ \t]{1,4}From[ \t]{1,2}(?P<name>[^:\t]{1,128}?)"
    r"(?:[ \t]{1,2}[Tt]o[ \t]{1,2}[^:\t]{1,128}?)?[ \t]{0,2}:(?:[ \t](?P<text>.*))?"
)
_REACTION = re.compile(r"Reacted to \"|Removed a .{1,20} reaction from \"")
_REPLY = 'Replying to "'
_DAY_S = 86_400
_NOBODY = "no line says who wrote a message (`10:02:15 From Kim to Everyone:`); nothing was stored"


def begins_as_zoom_chat(_: str, lines: Sequence[str]) -> bool:
    """Return whether a file begins with a message of a chat in Zoom."""
    return _HEAD.fullmatch(lines[0].rstrip()) is not None


def parse_zoom_chat(source: TextSource) -> Iterator[Parsed]:
    """Yield each message as a turn, without reactions; times count from the first message."""
    lines = list(read_lines(source.stream, source.longest))
    pieces: list[tuple[Spoken, list[str]]] = []
    first: float | None = None
    for line in lines:
        text = (line.text or "").rstrip()
        if head := _HEAD.fullmatch(text):
            clock = (int(head["hours"]) * 60 + int(head["minutes"])) * 60 + int(head["seconds"])
            first = clock if first is None else first
            piece = Spoken(line.number, head["name"].strip(), "", (clock - first) % _DAY_S, line.offset)
            pieces.append((piece, [head["text"] or ""]))
        elif pieces:
            pieces[-1][1].append(text.removeprefix("\t").removeprefix("    "))
    if not pieces:
        yield Unrecognised(1, _NOBODY, lines[-1].offset if lines else 0)
        return
    own = ((piece, _take_own_words("\n".join(words))) for piece, words in pieces)
    said = (replace(piece, text=text) for piece, text in own if text)
    turns = build_spoken_turns(said, source.session, source.find_beginning(), are_messages=True)
    yield from merge_by_line(find_unreadable(lines), turns)


def _take_own_words(text: str) -> str:
    """Return what the sender of a message wrote; empty where that is a reaction."""
    told = text.strip()
    if told.startswith(_REPLY):
        told = "\n".join(dropwhile(str.strip, told.split("\n"))).strip()
    return "" if _REACTION.match(told) else told
