"""An embedding service on loopback that checks what it is sent and misbehaves as a test says."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from starlette.responses import JSONResponse, Response

from tests.client.loopback import Loopback, Seen, loopback

KEY, MODEL = "sk-distinctive-key-8822", "text-embedding-test"
Fault = Callable[[Seen], Response | None]


@dataclass
class EmbeddingService:
    """`asked` lists the texts of each request; `fault` may answer instead; `complaints` tell what was sent wrongly."""

    server: Loopback
    fault: Fault = lambda _seen: None
    asked: list[list[str]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    #: what the model gives when it is asked for no number
    dimensions: int = 384

    @property
    def url(self) -> str:
        return self.server.url

    def answer(self, seen: Seen) -> Response:
        body = seen.json
        if (seen.method, seen.path) != ("POST", "/v1/embeddings"):
            self.complaints.append(f"{seen.method} {seen.path}")
        if seen.headers.get("authorization") != f"Bearer {KEY}" or KEY.encode() in seen.body:
            self.complaints.append("the key belongs into one header")
        if set(body) - {"dimensions"} != {"model", "input", "encoding_format"}:
            self.complaints.append(f"fields {sorted(body)}")
        if (body["model"], body["encoding_format"]) != (MODEL, "float"):
            self.complaints.append("values")
        self.asked.append(body["input"])
        return self.fault(seen) or JSONResponse(replied(body["input"], body.get("dimensions", self.dimensions)))


def replied(texts: list[str], dimensions: int = 384) -> dict[str, Any]:
    """A reply as services write it, its vectors in no order and of no certain length."""
    data = [{"object": "embedding", "index": n, "embedding": numbers(text, dimensions)} for n, text in enumerate(texts)]
    return {"object": "list", "data": data[::-1], "model": MODEL, "usage": {"prompt_tokens": 1, "total_tokens": 1}}


def numbers(text: str, dimensions: int = 384) -> list[float]:
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return [float(number) for number in np.random.default_rng(seed).standard_normal(dimensions)]


@contextmanager
def embedding_service() -> Iterator[EmbeddingService]:
    with loopback() as server:
        running = EmbeddingService(server)
        server.answer = running.answer
        yield running
    assert running.complaints == []
