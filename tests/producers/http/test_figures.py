"""The figures of the service as operators get and watch them: one reading for all, resumed behind the last event."""

import asyncio
from datetime import datetime
from typing import Any

import httpx
import orjson
import pytest
import pytest_asyncio

from store.tenancy.operator_keys import OperatorKeys
from tests.patience import until
from tests.producers.conftest import Tenant, World

FIGURES, STREAM = "/api/v1/operator/figures", "/api/v1/operator/figures/stream"


@pytest_asyncio.fixture(loop_scope="session")
async def operator(world: World) -> httpx.AsyncClient:
    key = await OperatorKeys(world.database).create("on call")
    return world.client({"authorization": f"Bearer {key}"})


def read_events(text: str) -> list[tuple[str, Any]]:
    """Return the id and the data of each event."""
    found = []
    for block in text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        if "data" in fields:
            assert fields["event"] == "figures"
            found.append((fields["id"], orjson.loads(fields["data"])))
    return found


async def test_figures_tell_work_workers_and_health(world: World, ana: Tenant, operator: httpx.AsyncClient) -> None:
    said = {"session_id": "s", "turn_id": "1", "messages": [{"role": "user", "content": "We fly on Friday"}]}
    assert (await ana.http.post("/api/v1/turns", json=said)).status_code == 201

    async def tells() -> bool:
        await world.figures.read_now()
        [*_, newest] = (await operator.get(FIGURES)).json()["samples"]
        return bool(newest["undone"].get("extraction")) and newest["oldest_s"]["extraction"] >= 0

    await until(tells, "the figures tell of the turn")
    report = (await operator.get(FIGURES)).json()
    assert report["rows"]["extraction"]["pending"] >= 1
    assert report["status"] == "ready"
    later = (await operator.get(FIGURES, params={"after": report["samples"][-1]["at"]})).json()
    assert later["samples"] == []


async def test_a_stream_goes_on_behind_the_last_event(world: World, operator: httpx.AsyncClient) -> None:
    await world.figures.read_now()
    reply = await operator.get(STREAM, params={"for_s": 0})
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.headers["cache-control"] == "no-store"
    [(last, first)] = read_events(reply.text)
    assert datetime.fromisoformat(last) == datetime.fromisoformat(first["samples"][-1]["at"])
    await world.figures.read_now()
    [(newer, second)] = read_events(
        (await operator.get(STREAM, params={"for_s": 0}, headers={"last-event-id": last})).text
    )
    assert newer > last
    assert [one["at"] > first["samples"][-1]["at"] for one in second["samples"]] == [True]
    strange = await operator.get(STREAM, params={"for_s": 0}, headers={"last-event-id": "another's"})
    [(_, whole)] = read_events(strange.text)
    assert len(whole["samples"]) >= len(second["samples"])


async def test_a_stream_ends_with_the_key(world: World) -> None:
    keys = OperatorKeys(world.database)
    operator = world.client({"authorization": f"Bearer {await keys.create('leaves')}"})
    watching = asyncio.create_task(operator.get(STREAM))

    async def ended() -> bool:
        await world.figures.read_now()
        return watching.done()

    await until(lambda: world.figures.is_watched, "somebody watches")
    await world.figures.read_now()
    assert not watching.done()
    [key] = [one for one in await keys.list() if one.label == "leaves"]
    await keys.revoke(key.key_id)
    await until(ended, "the stream has ended")
    assert (await watching).status_code == 200
    assert not world.figures.is_watched


@pytest.mark.law("L6")
async def test_a_tenants_key_watches_nothing(ana: Tenant) -> None:
    for path in (FIGURES, STREAM):
        assert (await ana.http.get(path)).status_code == 403
