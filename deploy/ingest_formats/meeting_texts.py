"""Parses the texts of meetings that Otter exports (`Kim  0:12`, then the words), and that Zoom and Google Meet write.

Zoom's saved captions have `[Kim] 10:00:05` before the words; their times count from the first one.
Meet's document has `Kim: text` a line below headings that are times. Its English form is known by the sentence that
Google puts into it. A summary before the transcript has no speaker and is left out.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain

from afterturn_client.message_times import read_time

from deploy.ingest_formats.bounded_lines import Line, read_lines
from deploy.ingest_formats.parsed import Parsed, Unrecognised, find_unreadable, merge_by_line
from deploy.ingest_formats.speakers import NAMED, may_speak, select_speakers
from deploy.ingest_formats.spoken import Spoken, build_spoken_turns, give_own_names
from deploy.ingest_formats.text_source import TextSource

_CLOCK = r"(?:(?P<hours>\d{1,3}):)?(?P<minutes>\d{1,2}):(?P<seconds>\d\d)"
_OTTER_HEAD = re.compile(rf"\s*(?P<name>\S(?:.{{0,126}}?\S)?)\s{{2,}}{_CLOCK}\s*")
_OTTER_FOOT = re.compile(r"\s*transcribed by https?://otter\.ai/?\s*", re.IGNORECASE)
_ZOOM_HEAD = re.compile(r"\[(?P<name>[^\[\]]{1,128})\] (?P<hours>\d\d):(?P<minutes>\d\d):(?P<seconds>\d\d)\s*")
_DAY_S = 86_400
_MEET_TIME = re.compile(rf"#*\s*{_CLOCK}\s*(?:\{{#[\d:]*\}})?\s*")
_MEET_SIGN = re.compile(r"This editable transcript was computer generated|Transcription ended after \d\d:")
_MEET_END = re.compile(r"[#*\s]*(?:Transcription ended after \d\d:|This editable transcript was computer).*")
#: A heading holds no colon but within a time, which is in the title of each transcript.
_MEET_HEADING = re.compile(r"(?:[^:]|(?<=\d):(?=\d)){0,200}\bTranscript\s*")
_MEET_BEGAN = re.compile(
    r"\((?P<day>\d{4}-\d\d-\d\d) (?:at )?(?P<clock>\d\d:\d\d) GMT"
    r"(?:(?P<sign>[+-])(?P<hours>1[0-4]|0?\d)(?::(?P<minutes>\d\d))?)?\)"
)
_BOLD = re.compile(r"\*\*([^*]{1,128}?):\*\*\s*")
_FIRST_MINUTE_S = 60
_LONGEST_HEAD = 200
#: What a file is refused with in which no speaker is found.
_NOBODY = "the text of a meeting in which no line names its speaker; nothing was stored"


@dataclass(frozen=True, slots=True)
class _Told:
    """A line that goes on what is said, or that names the next speaker, or tells the time."""

    line: Line
    text: str = ""
    name: str | None = None
    seconds: float | None = None


def begins_as_otter(text: str, lines: Sequence[str]) -> bool:
    """Return whether these lines are of an export of Otter: by its last line, or the first speaker at 0:00 to 0:59."""
    heads = [nth for nth, line in enumerate(lines) if _match_otter(line)]
    if not heads or heads[0] + 1 == len(lines) or heads[0] + 1 in heads:
        return False
    first = _match_otter(lines[heads[0]])
    is_early = first is not None and may_speak(first["name"]) and _read_clock(first) < _FIRST_MINUTE_S
    return any(map(_OTTER_FOOT.fullmatch, text.splitlines())) or (is_early and len(heads) > 1)


def begins_as_zoom(_: str, lines: Sequence[str]) -> bool:
    """Return whether these lines are captions of Zoom: who speaks and when, then the words."""
    heads = [_match_zoom(line) is not None for line in lines[:3]]
    return heads[0] and not any(heads[1:2]) and len(heads) > 1


def begins_as_meet(text: str, _: Sequence[str]) -> bool:
    """Return whether a document holds the sentence that Google Meet puts into its transcripts."""
    return _MEET_SIGN.search(text) is not None


def parse_otter(source: TextSource) -> Iterator[Parsed]:
    """Yield a turn for each sentence or more that a speaker said; what stands before the first one is left out."""
    lines = list(read_lines(source.stream, source.longest))
    told = [_read_otter(line) for line in lines if line.text and not _OTTER_FOOT.fullmatch(line.text)]
    yield from _build_turns(lines, told, source, source.find_beginning())


def parse_zoom(source: TextSource) -> Iterator[Parsed]:
    """Yield a turn for each sentence or more that a speaker said, with times from the first words on."""
    lines = list(read_lines(source.stream, source.longest))
    heads = [_match_zoom(line.text or "") for line in lines]
    first = next((_read_clock(head) for head in heads if head), 0.0)
    told = [
        _Told(line, "", head["name"], (_read_clock(head) - first) % _DAY_S)
        if head
        else _Told(line, (line.text or "").strip())
        for line, head in zip(lines, heads, strict=True)
    ]
    yield from _build_turns(lines, told, source, source.find_beginning())


def parse_meet(source: TextSource) -> Iterator[Parsed]:
    """Yield a turn for each sentence or more that a speaker said, with the time of the heading before it."""
    lines = list(read_lines(source.stream, source.longest))
    texts = [_BOLD.sub(r"\1: ", (line.text or "").strip()).replace("\\-", "-") for line in lines]
    begin = _find_meet_beginning(texts)
    if begin is None:
        yield Unrecognised(1, _NOBODY, lines[-1].offset if lines else 0)
        return
    end = next((nth for nth, text in enumerate(texts) if nth > begin + 1 and _MEET_END.fullmatch(text)), len(texts))
    labels = select_speakers(found["name"] for text in texts[begin:end] if (found := NAMED.fullmatch(text)))
    told = [_read_meet(line, text, labels) for line, text in zip(lines[begin:end], texts[begin:end], strict=True)]
    yield from _build_turns(lines, told, source, source.find_beginning() or _find_meet_time(texts[: begin + 1]))


def _match_otter(line: str) -> re.Match[str] | None:
    return _OTTER_HEAD.fullmatch(line) if len(line) <= _LONGEST_HEAD else None


def _match_zoom(line: str) -> re.Match[str] | None:
    return _ZOOM_HEAD.fullmatch(line) if len(line) <= _LONGEST_HEAD else None


def _read_otter(line: Line) -> _Told:
    found = _match_otter(line.text or "")
    return _Told(line, "", found["name"], _read_clock(found)) if found else _Told(line, (line.text or "").strip())


def _read_meet(line: Line, text: str, labels: set[str]) -> _Told:
    if at := _MEET_TIME.fullmatch(text):
        return _Told(line, seconds=_read_clock(at))
    found = NAMED.fullmatch(text)
    return _Told(line, found["text"], found["name"]) if found and found["name"] in labels else _Told(line, text)


def _find_meet_beginning(texts: Sequence[str]) -> int | None:
    """Return the index of the heading before the first time, or of the last where there is none; None without one."""
    first = next((nth for nth, text in enumerate(texts) if _MEET_TIME.fullmatch(text)), len(texts))
    return max((nth for nth, text in enumerate(texts[:first]) if _MEET_HEADING.fullmatch(text)), default=None)


def _find_meet_time(texts: Sequence[str]) -> datetime | None:
    """Return when the meeting began, as its title says, or else its day."""
    titles = filter(None, map(_MEET_BEGAN.search, reversed(texts)))
    told = chain(map(_read_title, titles), map(read_time, reversed(texts)))
    return next((at for at in told if at is not None), None)


def _read_title(found: re.Match[str]) -> datetime | None:
    zone = f"{found['sign'] or '+'}{found['hours'] or '0':0>2}:{found['minutes'] or '00'}"
    return read_time(f"{found['day']}T{found['clock']}:00{zone}")


def _read_clock(found: re.Match[str]) -> float:
    return (int(found["hours"] or 0) * 60 + int(found["minutes"])) * 60 + int(found["seconds"])


def _build_turns(
    lines: Sequence[Line], told: Sequence[_Told], source: TextSource, began: datetime | None
) -> Iterator[Parsed]:
    pieces = [piece for piece in _join_lines(told) if piece.text]
    if not pieces:
        yield Unrecognised(1, _NOBODY, lines[-1].offset if lines else 0)
        return
    yield from merge_by_line(find_unreadable(lines), build_spoken_turns(give_own_names(pieces), source.session, began))


def _join_lines(told: Sequence[_Told]) -> list[Spoken]:
    """Return what each speaker said, with the lines that go on with it."""
    pieces: list[tuple[Spoken, list[str]]] = []
    seconds = 0.0
    for one in told:
        seconds = seconds if one.seconds is None else one.seconds
        if one.name is not None:
            pieces.append((Spoken(one.line.number, one.name, "", seconds, one.line.offset), []))
        if one.text and pieces:
            pieces[-1][1].append(one.text)
    return [replace(piece, text=" ".join(words)) for piece, words in pieces]
