"""A stand-in for the native API: it checks what it is sent and remembers turns as the contract says."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import SecretStr
from starlette.responses import JSONResponse, Response

from deploy.local.folder_lock import FolderLock
from deploy.local.stack import Stack
from tests.client.loopback import Loopback, Seen

KEY = "at_double-key"
TURN_FIELDS = {
    "bank",
    "session_id",
    "turn_id",
    "user_id",
    "occurred_at",
    "messages",
    "metadata",
    "gateway",
    "doc_id",
}


def refusal(code: str, message: str, *, retryable: bool = False) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "retryable": retryable, "details": {}}, "request_id": "r"}


@dataclass
class NativeDouble:
    """Turns by name, in order of acceptance. `before` may answer a request in the double's place."""

    turns: dict[tuple[str, str, str], tuple[int, str]] = field(default_factory=dict)
    documents: dict[tuple[str, str], str] = field(default_factory=dict)
    batches: list[int] = field(default_factory=list)
    before: Callable[[Seen], Response | None] = field(default=lambda _seen: None)
    answers: dict[str, Any] = field(default_factory=dict)

    def answer(self, seen: Seen) -> Response:
        if seen.headers.get("authorization") != f"Bearer {KEY}":
            return JSONResponse(refusal("UNAUTHENTICATED", "no such key"), 401)
        if (instead := self.before(seen)) is not None:
            return instead
        if seen.path == "/api/v1/turns:batch":
            return self.take(seen.json)
        if seen.path == "/api/v1/docs":
            return self._document(seen.json)
        if seen.path.startswith("/api/v1/turns"):
            return self._take_one(seen) if seen.method == "POST" else self._tell(seen)
        return JSONResponse(self.answers[seen.path])

    def texts(self) -> list[str]:
        """What was accepted, in order."""
        return [json.loads(body)["messages"][0]["content"] for _position, body in self.turns.values()]

    def take(self, body: dict[str, Any]) -> Response:
        assert set(body) == {"turns"}
        assert 1 <= len(body["turns"]) <= 500
        for turn in body["turns"]:
            assert set(turn) <= TURN_FIELDS
            if any(message["content"] == "unacceptable" for message in turn["messages"]):
                return JSONResponse(refusal("INVALID_ARGUMENT", "content is not acceptable"), 422)
        self.batches.append(len(body["turns"]))
        return JSONResponse({"results": [self._one(turn) for turn in body["turns"]]})

    def _take_one(self, seen: Seen) -> Response:
        told = self._one(seen.json)
        return JSONResponse(told, 201 if told["ok"] else 409)

    def _tell(self, seen: Seen) -> Response:
        session, turn = seen.path.split("/")[-2:]
        position, body = self.turns[(seen.params["bank"], session, turn)]
        at = "2026-03-02T09:30:00Z"
        status = {"id": str(UUID(int=position)), "position": position, "accepted_at": at, "stages": {}}
        messages = [
            {"unit_id": str(UUID(int=nth)), "ordinal": nth, "role": None, "name": None, "occurred_at": at, "parts": []}
            | one
            for nth, one in enumerate(json.loads(body)["messages"])
        ]
        return JSONResponse({**status, "messages": messages})

    def _document(self, body: dict[str, Any]) -> Response:
        content = body.get("content")
        assert set(body) == {"bank", "title", "content_hash" if content is None else "content"}
        name = (body["bank"], body["content_hash"] if content is None else hashlib.sha256(content.encode()).hexdigest())
        known = name in self.documents
        doc = self.documents.setdefault(name, str(UUID(int=len(self.documents))))
        return JSONResponse(
            {"ok": True, "doc_id": doc, "position": 1, "duplicate": known, "units": int(content is not None)}
        )

    def _one(self, turn: dict[str, Any]) -> dict[str, Any]:
        document = turn.pop("doc_id", None)
        assert document is None or document in self.documents.values()
        name = (turn["bank"], turn["session_id"], turn["turn_id"])
        body = json.dumps(turn, sort_keys=True)
        known = name in self.turns
        position, kept = self.turns.setdefault(name, (len(self.turns) + 1, body))
        if kept != body:
            return {"ok": False, **refusal("TURN_CONFLICT", "known with another body")}
        return {"ok": True, "position": position, "duplicate": known}


def stand_in(folder: Path, server: Loopback, double: NativeDouble) -> FolderLock:
    """Make a folder look as if a stack ran in it, whose API is the double; release the lock when done."""
    folder.mkdir(exist_ok=True)
    (folder / "api-key").write_text(KEY + "\n")
    lock = FolderLock(folder)
    Stack(
        pid=1,
        api=server.url,
        metrics=server.url + "/metrics",
        docs=server.url + "/docs",
        api_key_file=folder / "api-key",
        database_url=SecretStr("postgresql+asyncpg://app:pw@127.0.0.1:1/x"),
        operator_url=SecretStr("postgresql+asyncpg://op:pw@127.0.0.1:1/x"),
        owner_url=SecretStr("postgresql+asyncpg://owner:pw@127.0.0.1:1/x"),
        redis_url=SecretStr("redis://:pw@127.0.0.1:1/0"),
        postgres_dir=folder / "pg",
    ).save(folder)
    server.answer = double.answer
    return lock
