"""Parses recorded meetings in WebVTT and SRT, as Teams, Stream, Zoom and Otter write them.

A cue names its speaker as `<v Kim>text</v>` or as `Kim: text`. Where such labels stand only when the speaker changes
(no two cues after each other repeat one), a cue without one goes on with the speaker before. Subtitles without speakers
are refused.
"""

import html
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from deploy.ingest_formats.bounded_lines import Line, read_lines
from deploy.ingest_formats.parsed import BadLine, Parsed, Unrecognised, find_unreadable, merge_by_line
from deploy.ingest_formats.speakers import NAMED, select_speakers
from deploy.ingest_formats.spoken import Spoken, build_spoken_turns, give_own_names
from deploy.ingest_formats.text_source import TextSource

_CLOCK = r"-?(?:\d+:)?\d{1,2}:\d{1,2}(?:[.,]\d{1,7})?"
_TIMING = re.compile(rf"\s*(?P<from>{_CLOCK})\s*-->\s*{_CLOCK}(?:\s.*)?")
_SIGNATURE = re.compile(r"WEBVTT(?:[ \t].*)?")
#: How blocks of WebVTT begin that are no cues.
_NOTES = re.compile(r"(?:NOTE|STYLE|REGION)\b")
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s(?P<name>[^<>]*)>(?P<text>.*?)(?=</v>|<v[.\s]|\Z)", re.DOTALL)
_TAG = re.compile(r"</?[a-z]+(?:[.\s][^<>]*)?>|<[\d:.]+>|\{\\[^{}]*\}", re.IGNORECASE)
#: A line that begins with a label, or is one.
_LABELLED = re.compile(r"(?P<name>[^:]+):(?:\s+(?P<text>.*))?")
#: A label in brackets, as diarizing programs write it: `[SPEAKER_00]: text`.
_BRACKETED = re.compile(r"\A\[([^\[\]:]{1,60})\]:(?=\s|\Z)")
#: The most cues for each name, where names stand at changes of speakers; subtitles of films have fewer names.
_LONGEST_SPEECH = 20
#: What a file is refused with that names no speakers.
NO_SPEAKERS = (
    "subtitles whose cues name no speaker (`<v Kim>text</v>` or `Kim: text`); export them with speakers, or store the "
    "text with --format document"
)


@dataclass
class _Cue:
    """A cue: its first line, seconds from the beginning, its lines, and its end in the file."""

    line: int
    seconds: float
    lines: list[str] = field(repr=False)
    offset: int = 0

    @property
    def words(self) -> str:
        """What was said, on one line."""
        return _clean(" ".join(self.lines))


def begins_as_captions(_: str, lines: Sequence[str]) -> bool:
    """Return whether a file begins as WebVTT, or with the number and the times of a first cue, as SRT."""
    first = lines[0].lstrip("\ufeff").strip()
    if _SIGNATURE.fullmatch(first) or _TIMING.fullmatch(first):
        return True
    return first.isdecimal() and len(lines) > 1 and _TIMING.fullmatch(lines[1]) is not None


def parse_captions(source: TextSource) -> Iterator[Parsed]:
    """Yield a turn for each sentence or more that a speaker said; Unrecognised where most cues name no speaker."""
    lines = list(read_lines(source.stream, source.longest))
    blocks = [_read_block(block) for block in _split_blocks(lines)]
    cues = [cue for block in blocks if not isinstance(block, BadLine) for cue in block]
    labels = select_speakers(found["name"] for cue in cues if (found := NAMED.fullmatch(cue.words)))
    pieces = give_own_names([piece for cue in cues for piece in _read_cue(cue, labels)])
    if not any(_VOICE.search("\n".join(cue.lines)) for cue in cues):
        pieces = _carry_names(pieces)
    if 2 * sum(bool(piece.name) for piece in pieces) < len(pieces) or not pieces:
        yield Unrecognised(1, NO_SPEAKERS, lines[-1].offset if lines else 0)
        return
    lost = (block for block in blocks if isinstance(block, BadLine))
    spoken = build_spoken_turns(pieces, source.session, source.find_beginning())
    yield from merge_by_line(find_unreadable(lines), lost, spoken)


def _split_blocks(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Yield the lines between blank ones."""
    block: list[Line] = []
    for line in lines:
        if line.text is not None and line.text.strip():
            block.append(line)
        elif block and line.text is not None:
            yield block
            block = []
    if block:
        yield block


def _read_block(block: Sequence[Line]) -> list[_Cue] | BadLine:
    """Return the cues of a block: one, several where blank lines are missing, or none without spoken words."""
    told = [line.text or "" for line in block]
    begins = [nth for nth, text in enumerate(told) if _TIMING.fullmatch(text)]
    if _NOTES.match(told[0]) or (not begins and _SIGNATURE.fullmatch(told[0])):
        return []
    if not begins:
        return BadLine(block[0].number, "not of a cue: no line says when it was said", block[-1].offset)
    return [_build_cue(block, told, begin, after) for begin, after in pairwise([*begins, len(told) + 1])]


def _build_cue(block: Sequence[Line], told: Sequence[str], begin: int, after: int) -> _Cue:
    """Return the cue between its times and those after it, before which its number may stand."""
    numbered = after > len(told) or told[after - 1].strip().isdecimal()
    end = after - 1 if numbered else after
    timing = _TIMING.fullmatch(told[begin])
    seconds = _read_clock(timing["from"]) if timing else 0.0
    return _Cue(block[begin].number, seconds, [*told[begin + 1 : end]], block[end - 1].offset)


def _read_clock(text: str) -> float:
    seconds = 0.0
    for number in text.lstrip("-").replace(",", ".").split(":"):
        seconds = seconds * 60 + float(number)
    return -seconds if text.startswith("-") else seconds


def _read_cue(cue: _Cue, labels: Container[str]) -> Iterator[Spoken]:
    """Yield what each speaker says in a cue, under the label that stands before it."""
    told = "\n".join(cue.lines)
    if voices := list(_VOICE.finditer(told)):
        rest = _VOICE.sub("", told).replace("</v>", "")
        yield from _build_pieces(cue, [("", rest), *((one["name"], one["text"]) for one in voices)])
        return
    said = [("", "")]
    for line in map(_clean, cue.lines):
        found = _LABELLED.fullmatch(line)
        if found and found["name"] in labels:
            said.append((found["name"], found["text"] or ""))
        else:
            said[-1] = (said[-1][0], f"{said[-1][1]} {line}")
    yield from _build_pieces(cue, said)


def _build_pieces(cue: _Cue, said: Iterable[tuple[str, str]]) -> Iterator[Spoken]:
    for name, text in said:
        if words := _clean(text):
            yield Spoken(cue.line, " ".join(html.unescape(name).split()), words, cue.seconds, cue.offset)


def _clean(text: str) -> str:
    """Return a cue's words without tags of style, a label without brackets."""
    return _BRACKETED.sub(r"\1:", " ".join(html.unescape(_TAG.sub("", text)).split()))


def _carry_names(pieces: Sequence[Spoken]) -> list[Spoken]:
    """Return the pieces, those without a name under the one before where names stand at a change of speakers alone."""
    named = sum(bool(piece.name) for piece in pieces)
    is_repeated = any(a.name == b.name for a, b in pairwise(pieces) if b.name)
    if not pieces or not pieces[0].name or is_repeated or named * _LONGEST_SPEECH < len(pieces):
        return [*pieces]
    carried: list[Spoken] = []
    for piece in pieces:
        carried.append(piece if piece.name else replace(piece, name=carried[-1].name))
    return carried
