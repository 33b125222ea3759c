"""The two clients behind one way to call them, and what a service answers."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from afterturn_client import (
    Afterturn,
    AsyncAfterturn,
    RetryPolicy,
)
from starlette.responses import JSONResponse

from tests.patience import PATIENCE_S

KEY = "at_distinctive-key-1b7f"
TEXT = "the heron kept the blue ledger"
QUICK = RetryPolicy(pauses_s=(0.01, 0.01, 0.01, 0.01))
FRESH = {"position": 9, "embedded": 8, "extracted": 7, "projected": 6, "pending": 5, "waited_ms": 2, "met": True}
RECALLED = {
    "unit_id": "0b7c1f5e-52a7-5a3e-8d51-3f6a1c9b7e21",
    "handle": 1,
    "kind": "experience",
    "text": TEXT,
    "score": 1,
    "session_id": "s",
    "turn_id": "t",
    "role": "user",
    "name": None,
    "occurred_at": "2026-01-02T03:04:05Z",
    "arms": ["dense", "lexical"],
    "novelty": "unknown fields pass",
}
EVIDENCE = {"top": 0.9, "on_topic": True, "about": None}
TOLD = {"freshness": FRESH, "took_ms": 3.5, "tokens": 9, "evidence": EVIDENCE, "bank_known": True}
ANSWER = {"results": [RECALLED], "reference": {"role": "user", "content": TEXT}, **TOLD}
FACT: dict[str, Any] = {
    "fact_id": "user_home",
    "key": "home",
    "value": "Lisbon",
    "text": "Ana lives in Lisbon.",
    "confidence": None,
    "superseded_by": None,
    "sources": [],
    "bank": "default",
    "unit_id": "0b7c1f5e-52a7-5a3e-8d51-3f6a1c9b7e20",
    "session_id": "s",
    "turn_id": "t",
    "said_at": "2026-02-02T00:00:00+00:00",
    "since": "2026-02-01T00:00:00+00:00",
    "until": None,
    "stated": 2,
    "state": "active",
    "history": [],
}
BESIDE = [{"name": "Bo", "kind": "person", "units": 1}]
PROFILE = {"names": ["Ana"], "facts": [FACT], "beside": BESIDE, "whole": True, "cursor": None, "has_more": False}
POORER = {**ANSWER, "degraded": ["rerank: late"]}


@dataclass
class Twin:
    """One of the two clients behind one way to call it."""

    kind: Any
    open: list[AsyncAfterturn | Afterturn]

    def client(self, url: str, **options: Any) -> AsyncAfterturn | Afterturn:
        client: AsyncAfterturn | Afterturn = self.kind(url, KEY, **{"retry": QUICK, "timeout_s": PATIENCE_S, **options})
        self.open.append(client)
        return client

    async def __call__(self, client: AsyncAfterturn | Afterturn, name: str, *args: Any, **options: Any) -> Any:
        method = getattr(client, name)
        if isinstance(client, AsyncAfterturn):
            return await method(*args, **options)
        return await asyncio.to_thread(method, *args, **options)


@pytest.fixture(params=[AsyncAfterturn, Afterturn])
async def twin(request: pytest.FixtureRequest) -> AsyncIterator[Twin]:
    made = Twin(request.param, [])
    yield made
    for client in made.open:
        await client.aclose() if isinstance(client, AsyncAfterturn) else client.close()


def error_body(code: str, message: str = "no", *, retryable: bool = False) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "retryable": retryable, "details": {}}, "request_id": "r-1"}


def accepted(position: int = 42, *, duplicate: bool = False) -> JSONResponse:
    return JSONResponse({"ok": True, "position": position, "duplicate": duplicate}, 200 if duplicate else 201)
