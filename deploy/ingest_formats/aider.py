"""Parses the chat history that Aider keeps in a project: `.aider.chat.history.md`.

A session begins with `# aider chat started at TIME`. Aider writes a prompt as lines of `#### text` and its own output
as lines of `> text`, both with two spaces at their ends; an answer stands between blank lines as the model wrote it,
whose own headings and quotations have no such ends.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import chain, pairwise

from afterturn_client.transcripts import TranscriptTurn

from deploy.ingest_formats.agent_files import build_agent_turn
from deploy.ingest_formats.bounded_lines import Line, read_lines
from deploy.ingest_formats.parsed import (
    Parsed,
    TurnNames,
    Unrecognised,
    derive_session_name,
    find_unreadable,
    merge_by_line,
)
from deploy.ingest_formats.text_source import TextSource

_BEGINNING = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*")
#: How lines of a prompt and of an output begin, and both end.
_PROMPT, _OUTPUT, _END = "####", ">", "  "
#: A question of Aider's own with the key that answered it, behind which the turn goes on.
_QUESTION = re.compile(r"[^\n]*\(Y\)es/\(N\)o[^\n]*")
#: What else is written like a prompt and is none: a command, an empty prompt, a question to `/help` with pages of the
#: manual. A command whose words a model answers is written again without its name.
_OWN = re.compile(r"[/!].*|<blank>|# Question: .*# Relevant docs:.*", re.DOTALL)
#: The least characters of a prompt that is taken for the answer before, which Aider hands on to the model that edits.
_HANDED_ON = 40
#: What a file is refused with whose spaces at the ends of lines are gone.
_STRIPPED = (
    "a history of Aider without the two spaces that Aider writes at the ends of its own lines, so that prompts cannot "
    "be told from an answer's headings; give it as Aider wrote it"
)


_NO_SESSION = "no line begins a session of Aider (`# aider chat started at TIME`)"


class _State(Enum):
    """What a line goes on with."""

    OUTPUT = auto()
    LONG_OUTPUT = auto()
    ANSWER = auto()


@dataclass
class _Prompt:
    """A prompt, and the pieces of its answer; `offset` is its end in the file."""

    line: int
    asked: list[str] = field(repr=False)
    answered: list[list[str]] = field(default_factory=list, repr=False)
    offset: int = 0

    @property
    def text(self) -> str:
        return "\n".join(self.asked).strip()

    @property
    def answers(self) -> list[str]:
        return [said for piece in self.answered if (said := "\n".join(piece).strip())]

    @property
    def is_own(self) -> bool:
        """Whether it is Aider's own, and what stands below it no answer to a person."""
        return not self.text or (_OWN.fullmatch(self.text) or _QUESTION.fullmatch(self.text)) is not None

    def goes_on(self, before: "_Prompt") -> bool:
        """Whether the turn before goes on: Aider asked, or handed the answer on to the model that edits."""
        told = "".join(self.text.split())
        last = "".join("".join(before.answered[-1]).split()) if before.answered else ""
        is_handed_on = len(told) >= _HANDED_ON and told in last
        return is_handed_on or _QUESTION.fullmatch(self.text) is not None


def begins_as_aider(_: str, lines: Sequence[str]) -> bool:
    """Return whether a file begins with the first line of a session of Aider."""
    return _BEGINNING.fullmatch(lines[0]) is not None


def parse_aider(source: TextSource) -> Iterator[Parsed]:
    """Yield each prompt and its answer as a turn of its session, at the time when that began, taken as UTC.

    Commands to Aider and what it writes itself are left out, and so is what stands before a session's first prompt.
    """
    lines = list(read_lines(source.stream, source.longest))
    told = [one for one in lines if one.text is not None]
    sessions = [*_split_sessions(told)]
    headings = [one.text for one in told if one.text and one.text.startswith(_PROMPT)]
    if not sessions or (headings and not any(map(_is_prompt, headings))):
        yield Unrecognised(1, _STRIPPED if sessions else _NO_SESSION, lines[-1].offset if lines else 0)
        return
    turns = (_build_turns(_read_prompts(session), source, started) for started, session in sessions)
    yield from merge_by_line(find_unreadable(lines), chain.from_iterable(turns))


def _split_sessions(lines: Sequence[Line]) -> Iterator[tuple[str, list[Line]]]:
    """Yield the time and the lines of each session."""
    begins = [nth for nth, line in enumerate(lines) if _BEGINNING.fullmatch(line.text or "")]
    for begin, end in pairwise([*begins, len(lines)]):
        started = _BEGINNING.fullmatch(lines[begin].text or "")
        yield started[1] if started else "", [*lines[begin + 1 : end]]


def _read_prompts(lines: Sequence[Line]) -> list[_Prompt]:
    """Return the prompts of a session; lines of answers are told by where they stand and how they end.

    An output of several lines has its mark before the first and the two spaces behind the last.
    """
    prompts: list[_Prompt] = []
    before, state = "", _State.OUTPUT
    for line in lines:
        text = line.text or ""
        if _is_prompt(text):
            if not (prompts and _is_prompt(before)):
                prompts.append(_Prompt(line.number, []))
            prompts[-1].asked.append(text.removeprefix(f"{_PROMPT} ").rstrip())
            state = _State.OUTPUT
        elif text.startswith(_OUTPUT) and text.endswith(_END):
            state = _State.OUTPUT
        elif state is _State.LONG_OUTPUT or (state is _State.OUTPUT and text.startswith(_OUTPUT)):
            state = _State.OUTPUT if text.endswith(_END) else _State.LONG_OUTPUT
        elif prompts and state is _State.OUTPUT and text.strip() and not before.strip():
            prompts[-1].answered.append([text])
            state = _State.ANSWER
        elif state is _State.ANSWER:
            prompts[-1].answered[-1].append(text)
        before = text
        if prompts:
            prompts[-1].offset = line.offset
    return prompts


def _is_prompt(text: str) -> bool:
    return text.startswith(f"{_PROMPT} ") and text.endswith(_END)


def _join_turns(prompts: Sequence[_Prompt]) -> list[_Prompt]:
    """Return the prompts of persons, each with all of its answer."""
    joined: list[_Prompt] = []
    for one in prompts:
        if joined and one.goes_on(joined[-1]):
            joined[-1].answered += one.answered
            joined[-1].offset = one.offset
        else:
            joined.append(one)
    return [one for one in joined if not one.is_own]


def _build_turns(prompts: Sequence[_Prompt], source: TextSource, started: str) -> Iterator[Parsed]:
    at = started.replace(" ", "T") + "Z"
    session = derive_session_name(f"{source.session if source.is_given else 'aider'} {started}")
    names = TurnNames()
    for one in _join_turns(prompts):
        name = names.take(names.digest("user", one.text))
        turn = TranscriptTurn(name, one.text, tuple(one.answers), asked_at=at, answered_at=at)
        yield build_agent_turn(session, turn, one.line, one.offset)
