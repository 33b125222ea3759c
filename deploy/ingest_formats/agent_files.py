"""Parses session files of coding agents (Claude Code, Codex) into turns, as the agents' hooks store them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, BinaryIO

from afterturn_client.kept_turns import write_messages
from afterturn_client.transcripts import TranscriptTurn, parse_transcript
from afterturn_client.turns import NewTurn

from deploy.ingest_formats.chat import LONGEST_DOCUMENT, SessionChoice
from deploy.ingest_formats.parsed import BadLine, Parsed, ParsedTurn, Unrecognised, check_turn, derive_session_name

#: Fields that a turn in JSON Lines has.
_OF_TURNS = frozenset({"session_id", "turn_id", "messages"})


def parse_agent_file(stream: BinaryIO, agent: str, sessions: SessionChoice) -> Iterator[Parsed]:
    """Yield the turns of a session file; sessions and turns have the names under which hooks store them."""
    raw = stream.read(LONGEST_DOCUMENT + 1)
    if len(raw) > LONGEST_DOCUMENT:
        yield BadLine(1, f"a session file of more than {LONGEST_DOCUMENT} bytes")
        return
    raw = _write_lines(raw)
    found = parse_transcript(agent, raw)
    if not found.turns:
        yield Unrecognised(1, "holds no prompt of a person that can be read; nothing was stored", len(raw))
        return
    session = sessions.given or derive_session_name(_find_session(raw) or sessions.file)
    for turn in found.turns:
        if any(one.content for one in write_messages(turn)):
            yield build_agent_turn(session, turn, 1, len(raw))
    if turns := sum(map(_is_turn, raw.splitlines())):
        yield BadLine(1, f"lines that are turns in JSON Lines: {turns}; give them in a file of their own", len(raw))
    if found.unreadable:
        yield BadLine(1, f"lines that are not JSON: {found.unreadable}", len(raw))


def build_agent_turn(session: str, turn: TranscriptTurn, line: int, offset: int) -> Parsed:
    """Return a turn of a person and a coding agent, of which what is new is stored where its answer has grown."""
    messages = [one for one in write_messages(turn) if one.content]
    told = check_turn(NewTurn(session, messages, turn.name), line, offset, may_grow=True)
    return replace(told, kept=turn) if isinstance(told, ParsedTurn) else told


def _write_lines(raw: bytes) -> bytes:
    """Return a session file that was made one array with a line for each entry again."""
    try:
        entries = json.loads(raw) if raw.lstrip().startswith(b"[") else None
    except (ValueError, RecursionError):
        return raw
    return b"".join(json.dumps(one).encode() + b"\n" for one in entries) if isinstance(entries, list) else raw


def _is_turn(line: bytes) -> bool:
    """Return whether a line is one of our turns, which no agent writes."""
    if not all(b'"%s"' % name.encode() in line for name in _OF_TURNS):
        return False
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and set(value) >= _OF_TURNS


def _find_session(raw: bytes) -> str | None:
    """Return the id of the session that the lines name."""
    for line in raw.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        payload = value.get("payload") if isinstance(value, Mapping) else None
        for named in (_get(value, "sessionId"), _get(payload, "id") if _get(value, "type") == "session_meta" else None):
            if isinstance(named, str) and named:
                return named
    return None


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None
