"""An agent with hybrid memory on Afterturn's own interfaces: as its Memory Gateway, and through the native API."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from afterturn_client import AsyncAfterturn
from afterturn_client.audit import AuditEvent
from afterturn_client.curated import MemoryStore
from afterturn_client.gateway import GatewayClient
from afterturn_client.hybrid import HybridMemory, Run
from afterturn_client.layers import AfterturnLayer, FinishedTurn, Layer, MemoryGatewayService
from afterturn_client.sessions import LocalSessions, RecalledSessions
from afterturn_client.settings import GatewaySettings, Scope

from tests.producers.conftest import Tenant, World

URL = "http://127.0.0.1:8300"
SCOPE = (Scope.CURRENT_CHAT, Scope.ALL_USER_MEMORY)


class Agent:
    """An agent whose model answers what it is told to; it remembers what it was sent and what was noted."""

    def __init__(self, home: Path, layer: Layer) -> None:
        self.sent: list[Sequence[Any]] = []
        self.noted: list[AuditEvent] = []
        sessions = LocalSessions(home / "sessions")
        self.memory = HybridMemory(MemoryStore(home), sessions, sessions, layer, self.noted.append)

    async def says(self, session: str, prompt: str, answer: str) -> None:
        async def think(run: Run) -> str:
            self.sent.append(run.messages)
            return answer

        await self.memory.run(session, prompt, think)


async def test_what_was_said_in_one_session_is_recalled_in_the_next_through_the_gateways_door(
    world: World, tmp_path: Path
) -> None:
    user = await world.tenant(gateway_user="ana")
    client = GatewayClient(URL, "ana", user.token, transport=httpx.ASGITransport(world.app))
    agent = Agent(tmp_path, MemoryGatewayService(GatewaySettings(URL, "ana", scope=SCOPE), client))
    async with agent.memory:
        await agent.says("monday", "We fly to Lisbon on Friday", "Noted: Lisbon, Friday")
        await agent.says("tuesday", "When do we fly to Lisbon?", "On Friday")
        await agent.says("wednesday", "When do we fly to Lisbon?", "On Friday")
    assert [event.name.value.rpartition("_")[2] for event in agent.noted] == ["succeeded"] * 9
    assert len(agent.sent[0]) == 2
    system, reference, current = agent.sent[1]
    assert "We fly to Lisbon on Friday" in reference["content"]
    assert reference["role"] == current["role"] == "user"
    assert "We fly" not in system["content"]
    assert agent.sent[2][1]["content"].count("We fly to Lisbon on Friday") == 1


async def test_what_was_recalled_is_never_stored_as_something_said(world: World, tmp_path: Path) -> None:
    user = await world.tenant(gateway_user="ana")
    client = GatewayClient(URL, "ana", user.token, transport=httpx.ASGITransport(world.app))
    agent = Agent(tmp_path, MemoryGatewayService(GatewaySettings(URL, "ana", scope=SCOPE), client))
    async with agent.memory:
        await agent.says("monday", "We fly to Lisbon on Friday", "Noted")
        await agent.says("tuesday", "When do we fly to Lisbon?", "On Friday")
        frame = agent.sent[1][1]["content"]
        await agent.says("wednesday", f"{frame} Is this right?", f"{frame} It is.")
        hits = await client.search("thursday", "We fly to Lisbon on Friday", [scope.value for scope in SCOPE], 100)
    assert [hit.text for hit in hits if "We fly" in hit.text] == ["We fly to Lisbon on Friday"]
    assert not [hit for hit in hits if "memory_reference" in hit.text]


async def test_through_the_native_api_the_turn_is_durable_recalled_and_searched(
    world: World, ana: Tenant, tmp_path: Path
) -> None:
    async with AsyncAfterturn(URL, ana.token, bank="trips", transport=httpx.ASGITransport(world.app)) as client:
        agent = Agent(tmp_path, AfterturnLayer(client))
        await agent.says("monday", "We fly to Lisbon on Friday", "Noted")
        await agent.says("tuesday", "When do we fly to Lisbon?", "On Friday")
        hits = await RecalledSessions(client).search("fly to Lisbon", 5, without="tuesday")
        assert client.position == agent.noted[-1].payload["position"]
    assert "We fly to Lisbon on Friday" in agent.sent[1][1]["content"]
    assert [hit.session_id for hit in hits] == ["monday", "monday"]


async def test_a_turn_that_is_handed_over_twice_is_one_turn(world: World, ana: Tenant) -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    turn = FinishedTurn("monday", "t-1", "We fly on Friday", "Noted", at, at)
    async with AsyncAfterturn(URL, ana.token, transport=httpx.ASGITransport(world.app)) as client:
        layer = AfterturnLayer(client)
        first, second = [await layer.persist_after_run(turn) for _ in range(2)]
    assert first == second
    assert first[0].name.value == "memory_handover_succeeded"


async def test_a_wrong_user_key_is_a_failed_recall_and_nothing_else(world: World, tmp_path: Path) -> None:
    client = GatewayClient(URL, "ana", "uk_wrong", transport=httpx.ASGITransport(world.app))
    agent = Agent(tmp_path, MemoryGatewayService(GatewaySettings(URL, "ana"), client))
    async with agent.memory:
        await agent.says("monday", "We fly to Lisbon on Friday", "Noted")
    assert [(event.name.value, event.payload["category"], event.payload["http_status"]) for event in agent.noted] == [
        ("memory_gateway_recall_failed", "unauthorized", 401),
        ("memory_gateway_add_failed", "unauthorized", 401),
    ]
