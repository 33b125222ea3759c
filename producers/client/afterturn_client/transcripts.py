"""Reads the session file of a coding agent (Claude Code, Codex) as turns, each a prompt and its answer.

Such a file has one JSON object a line. What a line is says the reader of its agent (`claude_lines`, `codex_lines`);
which lines are one turn is said here. Calls of tools, their results, side chains and lines of the agent's own interface
are left out. A line that cannot be read loses itself alone; a bad character becomes U+FFFD.
"""

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from afterturn_client.claude_lines import read_claude
from afterturn_client.codex_lines import read_codex
from afterturn_client.transcript_lines import Line, LineKind

#: Bytes that are read first from the end of a file, and at most; characters of one message that are kept.
LONGEST_TAIL, LONGEST_READ, LONGEST_MESSAGE = 4_194_304, 67_108_864, 200_000

#: Readers by the name of the agent.
READERS: Mapping[str, Callable[[Iterable[Mapping[str, Any]]], Iterator[Line]]] = {
    "claude-code": read_claude,
    "codex": read_codex,
}


@dataclass(frozen=True, slots=True)
class TranscriptTurn:
    """One turn: what was asked, and the pieces of the answer so far; times as RFC 3339 text, None where none is told.

    `name` is the id that the file has for it; where it has none (`named` is False), it is made from the prompt.
    `added`: what was asked while the turn was under way, which `asked` holds as well. `ended`: the file says that the
    turn came to its end; False where it was interrupted, is under way, or the file does not say.
    """

    name: str
    asked: str = field(repr=False)
    answered: tuple[str, ...] = field(default=(), repr=False)
    added: tuple[str, ...] = field(default=(), repr=False)
    named: bool = True
    ended: bool = False
    asked_at: str | None = None
    answered_at: str | None = None

    @property
    def answer(self) -> str:
        """The whole answer."""
        return "\n\n".join(self.answered)[:LONGEST_MESSAGE]


@dataclass(frozen=True, slots=True)
class Transcript:
    """What was read of a session file, oldest turn first.

    `open`: the last turn may still go on; False where something that is no turn (a command) followed it.
    `dismissed`: texts in the place of an answer that no model wrote. `unreadable`: how many lines were lost.
    """

    turns: tuple[TranscriptTurn, ...] = ()
    open: bool = False
    dismissed: frozenset[str] = field(default=frozenset(), repr=False)
    unreadable: int = 0


def read_transcript(agent: str, file: Path, *, prompts: int | None = None) -> Transcript:
    """Return the turns of an agent's session file; with `prompts`, only those from its last `prompts` prompts on.

    The file is read from its end until it holds that many, LONGEST_READ bytes at most. Raises OSError.
    """
    with file.open("rb") as opened:
        size = opened.seek(0, 2)
        tail = size if prompts is None else LONGEST_TAIL
        while True:
            begin = max(0, size - tail)
            # One byte more tells whether the first line is whole.
            opened.seek(max(0, begin - 1))
            lines, unreadable = _read_lines(opened.read(size - max(0, begin - 1)), whole=begin == 0)
            said = list(READERS[agent](lines))
            if begin == 0 or tail >= LONGEST_READ or sum(line.opens for line in said) >= (prompts or 0):
                return _join_turns(said, unreadable)
            tail *= 4


def parse_transcript(agent: str, told: bytes) -> Transcript:
    """Return the turns of a whole session file of an agent."""
    lines, unreadable = _read_lines(told, whole=True)
    return _join_turns(READERS[agent](lines), unreadable)


def _read_lines(told: bytes, *, whole: bool) -> tuple[list[Mapping[str, Any]], int]:
    """Return the JSON objects, one a line, and how many lines could not be read.

    A last line without an end is being written just now; of a first line that is not whole nothing is said, either.
    """
    lines = told.split(b"\n")
    found, lost = list[Mapping[str, Any]](), 0
    for n, line in enumerate(lines):
        if not line.strip() or (n == 0 and not whole):
            continue
        try:
            value = json.loads(line.decode("utf-8-sig", "replace"))
        except (ValueError, RecursionError):
            lost += n + 1 < len(lines)
            continue
        if isinstance(value, dict):
            found.append(value)
    return found, lost


def _join_turns(lines: Iterable[Line], unreadable: int) -> Transcript:
    turns, dismissed, current, is_open = dict[str, TranscriptTurn](), set[str](), "", False
    for line in _promote_commands(lines):
        if line.kind is LineKind.PROMPT:
            name = line.name or _derive_name(line, turns)
            # A prompt under the name of the turn under way was added to it; one of an earlier turn is there twice.
            is_open = name == current or name not in turns
            if is_open:
                turns[name] = _ask(turns.get(name), name, line)
                current = name
        elif line.kind is LineKind.UNDONE:
            turns.pop(next(reversed(turns), ""), None)
            current, is_open = "", False
        elif line.kind is LineKind.DISMISSED:
            dismissed.add(line.text)
        elif line.kind in (LineKind.COMMAND, LineKind.NOTICE):
            is_open = bool(turns) and line.kind is LineKind.NOTICE
        elif line.kind is LineKind.END:
            if is_open:
                turns[current] = replace(turns[current], ended=True)
        elif is_open:
            turns[current] = (_add_words if line.kind is LineKind.ADDED else _add_answer)(turns[current], line)
    return Transcript(tuple(turns.values()), is_open, frozenset(dismissed), unreadable)


def _promote_commands(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield the lines; a command with arguments that a model answers is a prompt."""
    held: Line | None = None
    for line in lines:
        if held is not None:
            yield replace(held, kind=LineKind.PROMPT) if line.kind is LineKind.ANSWER else held
        held = line if line.kind is LineKind.COMMAND and line.text else None
        if held is None:
            yield line
    if held is not None:
        yield held


def _ask(turn: TranscriptTurn | None, name: str, line: Line) -> TranscriptTurn:
    """Return the turn that begins with a prompt, or the one under way with the prompt, unless it has it."""
    if turn is None:
        return TranscriptTurn(name, line.text[:LONGEST_MESSAGE], named=bool(line.name), asked_at=line.at)
    return turn if line.text in turn.asked else _add_words(turn, line)


def _add_words(turn: TranscriptTurn, line: Line) -> TranscriptTurn:
    asked = f"{turn.asked}\n\n{line.text}"[:LONGEST_MESSAGE]
    return replace(turn, asked=asked, added=(*turn.added, line.text), ended=False)


def _add_answer(turn: TranscriptTurn, line: Line) -> TranscriptTurn:
    answered = (*turn.answered, line.text)
    return replace(turn, answered=answered, answered_at=line.at or turn.answered_at, ended=False)


def _derive_name(line: Line, taken: Mapping[str, object]) -> str:
    """Return a name that follows from a prompt; from how often it was asked as well, where that was more than once."""
    for n in itertools.count():
        told = f"{line.at}\n{n or ''}\n{line.text}"
        name = hashlib.sha256(told.encode("utf-8", "replace")).hexdigest()[:32]
        if name not in taken:
            return name
    raise AssertionError
