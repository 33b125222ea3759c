"""An agent in hybrid mode as users configure it: a gateway user's key, the running product as its Memory Gateway."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from afterturn_client.audit import AuditEvent
from afterturn_client.hybrid import HybridMemory, Run

from tests.deploy.cli.test_live import Live, up
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("live-stack")]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with up(tmp_path_factory.mktemp("hybrid") / "data", "--workers", "1") as running:
        yield running


async def test_what_one_session_said_is_recalled_in_the_next_with_a_key_made_for_a_gateway_user(
    live: Live, tmp_path: Path
) -> None:
    made = await asyncio.to_thread(live.answer, "keys", "create", "--gateway-user", "ana")
    gateway = {"baseUrl": live.stack.api, "userId": "ana", "userKey": made["key"], "scope": ["all_user_memory"]}
    config = {"memory": {"mode": "hybrid", "gateway": gateway | {"timeoutSeconds": PATIENCE_S}}}
    noted: list[AuditEvent] = []
    contents: list[str] = []

    async def think(run: Run) -> str:
        contents.extend(str(message["content"]) for message in run.messages)
        return "Noted."

    async with HybridMemory.open(config, tmp_path, listener=noted.append) as memory:
        await memory.run("monday", "We fly to Lisbon on Friday", think)
        contents.clear()
        await memory.run("tuesday", "When do we fly to Lisbon?", think)
    _, reference, prompt = contents
    assert "We fly to Lisbon on Friday" in reference
    assert prompt == "When do we fly to Lisbon?"
    assert [event.name.value.removeprefix("memory_gateway_") for event in noted] == [
        "recall_succeeded",
        "add_succeeded",
        "flush_succeeded",
    ] * 2
