"""L11: after an erasure neither a dump by PostgreSQL's own tool nor Redis holds the erased words."""

from typing import Any

import pytest

from tests.dumps import dumped
from tests.patience import until
from tests.producers.conftest import Tenant, World
from tests.producers.test_leaks import _redis

pytestmark = pytest.mark.law("L11")

SECRET = "Vorkutansk"


async def dump(world: World) -> bytes:
    """Return data and schema."""
    return await dumped(world.postgres.superuser_url, "--inserts")


async def test_no_dump_and_no_queue_holds_what_was_erased(world: World, ana: Tenant, turn: dict[str, Any]) -> None:
    said = [{"role": "user", "name": SECRET, "content": f"My name is {SECRET}"}]
    await ana.http.post("/api/v1/turns", json={**turn, "messages": said, "metadata": {"of": SECRET}})
    await ana.http.post("/api/v1/recall/jobs", json={"query": f"who is {SECRET}"})
    await until(lambda: b".msgs" in _redis(world), "what was rung for is in Redis")
    assert SECRET.encode() in await dump(world)
    answer = await ana.http.post("/api/v1/erasures", json={"kind": "session", "session_id": "monday"})
    assert answer.json()["status"] == "done"
    assert answer.json()["counts"]["recall_jobs"] == 1
    assert SECRET.lower().encode() not in (await dump(world)).lower()
    assert SECRET.lower().encode() not in _redis(world).lower()
