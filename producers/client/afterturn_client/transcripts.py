"""Reads an agent's transcript as turns, each a prompt and its answer.

Claude Code writes entries of type user and assistant; Codex writes `event_msg` entries (user_message, agent_message)
within `turn_context`s. Calls of tools and their results are skipped in both.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from afterturn_client.reference import strip_parts

#: Bytes of a transcript that are read from its end, and characters of one message that are kept.
LONGEST_TAIL, LONGEST_MESSAGE = 4_194_304, 200_000


@dataclass(frozen=True, slots=True)
class TranscriptTurn:
    """One turn of a transcript: the id of its prompt, the prompt, and the answer so far."""

    name: str
    asked: str = field(repr=False)
    answered: tuple[str, ...] = field(default=(), repr=False)

    @property
    def answer(self) -> str:
        """The whole answer."""
        return "\n\n".join(self.answered)[:LONGEST_MESSAGE]


@dataclass(frozen=True, slots=True)
class _TranscriptEntry:
    """One entry with text: a prompt with its id, or a piece of the answer to it."""

    text: str
    name: str | None = None


def read_turns(agent: str, transcript: Path) -> list[TranscriptTurn]:
    """Return the turns at the end of an agent's transcript that have a prompt with an id, oldest first."""
    turns: list[TranscriptTurn] = []
    for said in READERS[agent](_read_entries(transcript)):
        if said.name is not None:
            turns.append(TranscriptTurn(said.name, said.text[:LONGEST_MESSAGE]))
        elif turns:
            last = turns[-1]
            turns[-1] = TranscriptTurn(last.name, last.asked, (*last.answered, said.text))
    return [turn for turn in turns if turn.name]


def _read_claude(entries: Iterator[Mapping[str, Any]]) -> Iterator[_TranscriptEntry]:
    for entry in entries:
        # The summary after a compaction is recorded as a prompt, but no user wrote it.
        if entry.get("isSidechain") or entry.get("isMeta") or entry.get("isCompactSummary"):
            continue
        text = _text_of(entry.get("message"))
        if entry.get("type") == "user" and text:
            yield _TranscriptEntry(text, str(entry.get("uuid") or ""))
        elif entry.get("type") == "assistant" and text:
            yield _TranscriptEntry(text)


def _read_codex(entries: Iterator[Mapping[str, Any]]) -> Iterator[_TranscriptEntry]:
    turn = ""
    for entry in entries:
        payload = entry.get("payload")
        if not isinstance(payload, dict):
            continue
        kind = payload.get("type") if entry.get("type") == "event_msg" else entry.get("type")
        if kind in ("turn_context", "task_started", "turn_started"):
            turn = str(payload.get("turn_id") or turn)
        message = payload.get("message")
        if isinstance(message, str) and message.strip() and kind in ("user_message", "agent_message"):
            yield _TranscriptEntry(message.strip(), turn if kind == "user_message" else None)


#: Readers by the name of the agent.
READERS: Mapping[str, Callable[[Iterator[Mapping[str, Any]]], Iterator[_TranscriptEntry]]] = {
    "claude-code": _read_claude,
    "codex": _read_codex,
}


def _read_entries(transcript: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the entries at the end of a transcript; invalid and incomplete lines are skipped."""
    with transcript.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - LONGEST_TAIL))
        for line in file.read().splitlines():
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(entry, dict):
                yield entry


def _text_of(message: Any) -> str:
    """Return the text of a message, without frames that begin in one part and end in another.

    The results of tools have no text here.
    """
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return content.strip()
    parts = content if isinstance(content, list) else ()
    texts = (part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text")
    return "\n".join(text for text in strip_parts([text for text in texts if isinstance(text, str)]) if text).strip()
