"""A gateway and a model on loopback, an agent between them, and what each of them was sent."""

import runpy
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from afterturn_client.audit import AuditEvent
from afterturn_client.curated import Target
from afterturn_client.hybrid import HybridMemory, Run, RunResult
from starlette.responses import JSONResponse, Response

from tests.client.loopback import Loopback, Seen

EXAMPLE = Path(__file__).parents[3] / "producers" / "client" / "examples" / "hybrid_agent.py"
KEY = "uk_distinctive-a1-b2-secret"
RECALLED = "the heron's ledger lies under the blue bridge"
PROMPT = "where did we leave the ledger?"
ANSWER = "Under the bridge, as agreed."
NOTE = "the attic key hangs behind the clock"
SKILL = {"role": "user", "content": "[skill] how to search an attic"}
HIT = {
    "id": "u_ep_1",
    "session_id": "chat:older",
    "text": RECALLED,
    "score": 0.75,
    "source_scope": "resources",
    "resource_uri": "viking://notes/7",
    "raw": {"upstream": "must never be shown"},
}


def config(gateway: Loopback, **changes: Any) -> dict[str, Any]:
    """Return a complete, explicit hybrid configuration."""
    block = {"baseUrl": gateway.url, "userId": "ana", "userKey": KEY, "timeoutSeconds": 5, **changes}
    return {"memory": {"mode": "hybrid", "gateway": block}}


def gateway_answers(gateway: Loopback, **by_operation: Response) -> None:
    """Answer each operation as said; what is not said goes well."""

    def answer(seen: Seen) -> Response:
        operation = seen.path.rpartition("/")[2]
        fine = {"search": {"results": [HIT]}, "add": {"data": {"message_count": 2}}, "flush": {"data": {}}}
        return by_operation.get(operation) or JSONResponse(fine[operation])

    gateway.answer = answer


def says(text: str) -> dict[str, Any]:
    """Return a model's final message."""
    return {"role": "assistant", "content": text}


def calls(name: str, arguments: str) -> dict[str, Any]:
    """Return a model's message that asks for one tool; the content is its thinking aloud."""
    function = {"name": name, "arguments": arguments}
    asked = [{"id": "call_1", "type": "function", "function": function}]
    return {"role": "assistant", "content": "let me think it over", "tool_calls": asked}


def model_answers(model: Loopback, *messages: dict[str, Any]) -> None:
    """Answer with these messages in turn, the last one for ever."""
    model.answers(*(JSONResponse({"choices": [{"message": message}]}) for message in messages))


@dataclass
class World:
    """An agent with its memory; `events` are the hidden ones it has told of."""

    memory: HybridMemory
    gateway: Loopback
    model: Loopback
    http: httpx.AsyncClient
    home: Path
    events: list[AuditEvent] = field(default_factory=list)

    async def run(self, prompt: str = PROMPT, session: str | None = "s-1", **options: Any) -> RunResult:
        return await self.memory.run(session, prompt, self.think, **options)

    async def think(self, run: Run) -> str:
        """The example's own loop, against the model's server."""
        loop: Callable[[Run], Any] = runpy.run_path(str(EXAMPLE))["Model"](self.http, "tiny").think
        return str(await loop(run))

    def asked(self, at: int = 0) -> list[dict[str, Any]]:
        """Return the messages of a request to the model."""
        messages: list[dict[str, Any]] = self.model.seen[at].json["messages"]
        return messages

    def paths(self) -> list[str]:
        """Return which operations the gateway was asked for, in order."""
        return [seen.path for seen in self.gateway.seen]

    def bodies(self, operation: str) -> list[Any]:
        return [seen.json for seen in self.gateway.seen if seen.path == f"/memories/{operation}"]

    def noted(self) -> list[tuple[str, Any]]:
        return [(event.name.value, event.payload) for event in self.events]


@asynccontextmanager
async def world(
    settings: dict[str, Any], home: Path, gateway: Loopback, model: Loopback, **options: Any
) -> AsyncIterator[World]:
    """Build an agent from a configuration and close it again."""
    events: list[AuditEvent] = []
    async with (
        httpx.AsyncClient(base_url=f"{model.url}/v1") as http,
        HybridMemory.open(settings, home, listener=events.append, **options) as memory,
    ):
        yield World(memory, gateway, model, http, home, events)


def texts(messages: Sequence[dict[str, Any]]) -> str:
    """Return everything messages say."""
    return "\n".join(str(message["content"]) for message in messages)


def remember(world: World, content: str = NOTE) -> None:
    """Have the agent's curated memory hold this."""
    world.memory.store.add(Target.MEMORY, content)
