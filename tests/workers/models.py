"""A model on loopback that checks what it is sent, answers as it was told, and misbehaves on demand."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from pydantic import SecretStr
from starlette.responses import JSONResponse, Response

from tests.client.loopback import Loopback, Seen, loopback
from workers.extraction.llm.reader import LlmReader, build_reader
from workers.settings import EnrichmentSettings

KEY, MODEL = "sk-distinctive-key-6613", "test/model-1"
TOOL = "extract_and_merge_memories"
FIELDS = {
    "model",
    "instructions",
    "input",
    "tools",
    "tool_choice",
    "max_output_tokens",
    "metadata",
    "store",
}
Fault = Callable[[Seen], Response | None]


@dataclass
class Model:
    """`asked` lists the turn of each call as the model read it; `says` are the tool's arguments it answers with.

    `fault` may answer instead. `complaints` tell what was sent wrongly.
    """

    server: Loopback
    says: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda _turn: {"updated_facts": [], "entities": []}
    fault: Fault = lambda _seen: None
    asked: list[Mapping[str, Any]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.server.url

    def answer(self, seen: Seen) -> Response:
        turn = self._checked(seen)
        self.asked.append(turn)
        return self.fault(seen) or JSONResponse(called(self.says(turn)))

    def _checked(self, seen: Seen) -> Mapping[str, Any]:
        body = seen.json
        self._expect((seen.method, seen.path) == ("POST", "/v1/responses"), f"{seen.method} {seen.path}")
        self._expect(seen.headers.get("authorization") == f"Bearer {KEY}", "no key in the header")
        self._expect(KEY.encode() not in seen.body, "the key in the body")
        self._expect(set(body) == FIELDS, f"fields {sorted(body)}")
        self._expect(body["model"] == MODEL and body["max_output_tokens"] == 800 and body["store"] is False, "values")
        self._expect(body["metadata"] == {"component": "agents_memory", "task": "extract_merge_facts"}, "metadata")
        (tool,) = body["tools"]
        self._expect(tool["name"] == TOOL and tool["type"] == "function" and tool["strict"] is True, "tool")
        (message,) = body["input"]
        (part,) = message["content"]
        self._expect((message["role"], part["type"]) == ("user", "input_text"), "the turn is a user's message")
        text = part["text"]
        self._expect(text.count("<") == text.count(">") == 2, "something could close the frame")
        inside = orjson.loads(text.removeprefix("<conversation_turn>\n").removesuffix("\n</conversation_turn>"))
        self._expect(inside["untrusted"] is True, "not framed as untrusted")
        turn: Mapping[str, Any] = inside
        return turn

    def _expect(self, holds: bool, complaint: str) -> None:  # noqa: FBT001 - what must hold
        if not holds:
            self.complaints.append(complaint)


def called(arguments: object, **more: Any) -> dict[str, Any]:
    """A reply of the Responses API that calls the tool."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    output = [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": TOOL, "arguments": text},
    ]
    return {"id": "resp_1", "object": "response", "status": "completed", "output": output, **more}


def fact(value: str, quote: str, **more: Any) -> dict[str, Any]:
    """A fact as a model says it."""
    plain = {"fact_id": "user_location", "key": "city", "tier": "L0", "confidence": 0.9, "message": 0}
    return {**plain, "value": value, "quote": quote, **more}


def facts(*found: Mapping[str, Any], entities: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    return {"updated_facts": list(found), "entities": list(entities)}


def reader(url: str, **more: Any) -> LlmReader:
    settings = {"enabled": True, "base_url": url, "model": MODEL, "api_key": SecretStr(KEY), "timeout_seconds": 30.0}
    made = build_reader(EnrichmentSettings(**{**settings, **more}))
    assert made is not None
    return made


@contextmanager
def model() -> Iterator[Model]:
    with loopback() as server:
        running = Model(server)
        server.answer = running.answer
        yield running
    assert running.complaints == []
