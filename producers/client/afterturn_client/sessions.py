"""Session histories of the agent: messages, audit events and search. No network.

One JSON Lines file a session, one line a turn, so that a turn is stored completely or not at all. Hidden events are
lines of their own: they are in the file for an auditor, and in no prompt and no search.
"""

import asyncio
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from afterturn_client.audit import AuditEvent
from afterturn_client.calls import RecallOptions
from afterturn_client.client import AsyncAfterturn
from afterturn_client.curated.files import lock_folder
from afterturn_client.errors import AfterturnError, ApiError
from afterturn_client.layers import FinishedTurn
from afterturn_client.ranking import rank_texts

#: How many characters of a turn a search shows.
EXCERPT = 800
#: Longest wait for another process's write, in seconds.
PATIENCE_S = 10.0
#: Results asked for when only one session is of interest, because the recall searches the whole bank.
WIDE = 100
SERVER_ERRORS = range(500, 600)


@dataclass(frozen=True, slots=True)
class SessionHit:
    """One place in the histories."""

    session_id: str
    text: str = field(repr=False)
    at: datetime | None


class SessionSearch(Protocol):
    """A search in earlier sessions. `only` names the one session to search, `without` one to leave out."""

    async def search(
        self, query: str, limit: int, *, only: str | None = None, without: str | None = None
    ) -> Sequence[SessionHit]:
        """Return at most `limit` places, best first."""
        ...


class Sessions(Protocol):
    """The protocol of an agent's session histories; bring your own, or use LocalSessions."""

    async def history(self, session_id: str) -> Sequence[Mapping[str, Any]]:
        """Return the session's messages for the next prompt, oldest first, hidden events left out."""
        ...

    async def record(self, turn: FinishedTurn) -> None:
        """Store a turn that ended normally."""
        ...

    async def note(self, event: AuditEvent) -> None:
        """Store a hidden event."""
        ...


@dataclass(frozen=True, slots=True)
class LocalSessions:
    """Session histories in a folder, shared between processes. `history_turns` turns are shown to the next run."""

    folder: Path
    history_turns: int = 20

    async def history(self, session_id: str) -> Sequence[Mapping[str, Any]]:
        """Return the messages of the newest turns, oldest first."""
        lines = await asyncio.to_thread(lambda: list(_visible_lines(self._path(session_id))))
        return [message for line in lines[-self.history_turns :] for message in line["messages"]]

    async def record(self, turn: FinishedTurn) -> None:
        """Append a turn; on disk when this returns."""
        messages = [{"role": "user", "content": turn.prompt}, {"role": "assistant", "content": turn.answer}]
        line = {"turn_id": turn.turn_id, "at": turn.asked_at, "context_visible": True, "messages": messages}
        await asyncio.to_thread(self._append, turn.session_id, line)

    async def note(self, event: AuditEvent) -> None:
        """Append a hidden event."""
        line = {"event": event.name, "at": datetime.now(UTC), "context_visible": False, "payload": dict(event.payload)}
        await asyncio.to_thread(self._append, event.session_id, line)

    async def search(
        self, query: str, limit: int, *, only: str | None = None, without: str | None = None
    ) -> Sequence[SessionHit]:
        """Compare the query's words with every turn (BM25); reads all files, which is fine for thousands of turns."""
        return await asyncio.to_thread(self._search, query, limit, only, without)

    def events(self, session_id: str) -> list[Mapping[str, Any]]:
        """Return the hidden events of a session, oldest first."""
        return [line for line in _read_lines(self._path(session_id)) if line.get("context_visible") is False]

    def _search(self, query: str, limit: int, only: str | None, without: str | None) -> list[SessionHit]:
        paths = sorted(self.folder.glob("*.jsonl")) if only is None else [self._path(only)]
        hits = [
            hit for path in paths for line in _visible_lines(path) if (hit := _build_hit(line)).session_id != without
        ]
        best = rank_texts(query, [hit.text for hit in hits])[:limit]
        return [SessionHit(hits[at].session_id, _cut_excerpt(hits[at].text), hits[at].at) for at in best]

    def _append(self, session_id: str, line: Mapping[str, Any]) -> None:
        text = json.dumps({"session_id": session_id, **line}, default=_format_value) + "\n"
        path = self._path(session_id)
        with lock_folder(self.folder, PATIENCE_S), path.open("ab") as file:
            os.fchmod(file.fileno(), 0o600)
            # A line that a killed process has left unfinished must not swallow this one.
            file.write((b"" if _ends_whole(path) else b"\n") + text.encode())
            file.flush()
            os.fsync(file.fileno())

    def _path(self, session_id: str) -> Path:
        return self.folder / f"{hashlib.sha256(session_id.encode(errors='surrogatepass')).hexdigest()[:32]}.jsonl"


@dataclass(frozen=True, slots=True)
class RecalledSessions:
    """Session search through Afterturn's recall, by words and by meaning, for agents that store their turns there.

    `bank` is that of the turns (the AfterturnLayer's); None is the client's own. While the service is away, `local` is
    searched instead, for example the agent's LocalSessions.
    """

    client: AsyncAfterturn
    bank: str | None = None
    local: SessionSearch | None = None

    async def search(
        self, query: str, limit: int, *, only: str | None = None, without: str | None = None
    ) -> Sequence[SessionHit]:
        """Return at most `limit` recalled messages of the selected sessions.

        Raises AfterturnError where the service refuses the search, or is away and there is no `local`.
        """
        try:
            return await self._recalled(query, limit, only, without)
        except AfterturnError as error:
            if self.local is None or not _is_away(error):
                raise
        return await self.local.search(query, limit, only=only, without=without)

    async def _recalled(self, query: str, limit: int, only: str | None, without: str | None) -> list[SessionHit]:
        asked: RecallOptions = {"k": limit, "kinds": ["experience"]}
        if self.bank is not None:
            asked["bank"] = self.bank
        if only is not None:
            asked |= {"k": WIDE, "session_id": only}
        elif without is not None:
            asked |= {"session_id": without, "exclude_session": True}
        answer = await self.client.recall(query, **asked)
        hits = [
            SessionHit(found.session_id, f"{found.role or 'unknown'}: {found.text}"[:EXCERPT], found.occurred_at)
            for found in answer.results
            if found.session_id is not None and only in {None, found.session_id}
        ]
        return hits[:limit]


def _is_away(error: AfterturnError) -> bool:
    """Return whether the service did not answer, or cannot answer now, unlike a refusal, which a retry would repeat."""
    return error.retryable or error.status in SERVER_ERRORS if isinstance(error, ApiError) else True


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the complete lines; a torn one is an unacknowledged turn of a process that was killed."""
    if not path.exists():
        return
    for raw in path.read_bytes().split(b"\n"):
        try:
            line = json.loads(raw)
        except ValueError:
            continue
        if isinstance(line, dict) and isinstance(line.get("session_id"), str):
            yield line


def _visible_lines(path: Path) -> Iterator[dict[str, Any]]:
    return (
        line
        for line in _read_lines(path)
        if line.get("context_visible") is True and isinstance(line.get("messages"), list)
    )


def _build_hit(line: Mapping[str, Any]) -> SessionHit:
    text = "\n".join(f"{message['role']}: {message['content']}" for message in line["messages"])
    return SessionHit(line["session_id"], text, datetime.fromisoformat(line["at"]))


def _cut_excerpt(text: str) -> str:
    return text if len(text) <= EXCERPT else f"{text[: EXCERPT - 1]}…"


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return size == 0 or file.read() == b"\n"


def _format_value(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    raise TypeError(f"{type(value).__name__} is not written into a session's file")
