"""L6: a tenant is a wall. What belongs to another host, or to a bank out of reach, does not exist."""

from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.producers.conftest import Tenant, World

pytestmark = pytest.mark.law("L6")


@pytest.fixture
async def bob(world: World) -> Tenant:
    return await world.tenant()


def told(reply: httpx.Response) -> tuple[int, Any]:
    body = reply.json() if reply.content else {}
    return reply.status_code, {name: value for name, value in body.items() if name != "request_id"}


async def test_the_same_names_on_two_hosts_are_two_turns(ana: Tenant, bob: Tenant, turn: dict[str, Any]) -> None:
    other = {**turn, "messages": [{"role": "user", "content": "Something else"}]}
    assert (await ana.http.post("/api/v1/turns", json=turn)).status_code == 201
    assert (await bob.http.post("/api/v1/turns", json=other)).status_code == 201
    asked = {"query": "Lisbon", "k": 5}
    texts = [r["text"] for r in (await bob.http.post("/api/v1/recall", json=asked)).json()["results"]]
    assert texts == ["Something else"]


async def test_what_is_foreign_answers_exactly_as_what_is_not_there(
    ana: Tenant, bob: Tenant, turn: dict[str, Any]
) -> None:
    await ana.http.post("/api/v1/turns", json=turn)
    unit = (await ana.http.post("/api/v1/recall", json={"query": "Lisbon"})).json()["results"][0]["unit_id"]
    job = (await ana.http.post("/api/v1/recall/jobs", json={"query": "Lisbon"})).json()["job_id"]
    for path, absent in (
        ("/api/v1/turns/monday/1", "/api/v1/turns/monday/2"),
        (f"/api/v1/units/{unit}", f"/api/v1/units/{uuid4()}"),
        (f"/api/v1/recall/jobs/{job}", f"/api/v1/recall/jobs/{uuid4()}"),
        ("/api/v1/banks/default/freshness", "/api/v1/banks/nothing/freshness"),
    ):
        assert told(await bob.http.get(path)) == told(await bob.http.get(absent))
    for path in (f"/api/v1/units/{unit}", f"/api/v1/recall/jobs/{job}"):
        assert (await bob.http.delete(path)).status_code == 404
        assert (await ana.http.get(path)).status_code == 200
    assert (await bob.http.post("/api/v1/recall", json={"query": "Lisbon"})).json()["results"] == []


async def test_no_field_chooses_the_tenant(ana: Tenant, bob: Tenant, turn: dict[str, Any]) -> None:
    await ana.http.post("/api/v1/turns", json=turn)
    for field in ("host", "host_id", "tenant"):
        reply = await bob.http.post("/api/v1/recall", json={"query": "Lisbon", field: ana.host})
        assert reply.status_code == 422
    headers = {"x-host": ana.host, "x-tenant": ana.host, "x-afterturn-host": ana.host}
    reply = await bob.http.post("/api/v1/recall", json={"query": "Lisbon"}, headers=headers)
    assert reply.json()["results"] == []


async def test_a_scoped_key_reaches_its_banks_and_no_other(world: World, ana: Tenant, turn: dict[str, Any]) -> None:
    await ana.http.post("/api/v1/turns", json=turn)
    unit = (await ana.http.post("/api/v1/recall", json={"query": "Lisbon"})).json()["results"][0]["unit_id"]
    job = (await ana.http.post("/api/v1/recall/jobs", json={"query": "Lisbon"})).json()["job_id"]
    scoped = await world.tenant(ana.host, banks=["work"])
    assert (await scoped.http.post("/api/v1/turns", json={**turn, "bank": "work"})).status_code == 201
    for reply in (
        await scoped.http.post("/api/v1/turns", json=turn),
        await scoped.http.post("/api/v1/recall", json={"query": "Lisbon"}),
        await scoped.http.post("/api/v1/recall/jobs", json={"query": "Lisbon"}),
        await scoped.http.get("/api/v1/turns/monday/1"),
        await scoped.http.get(f"/api/v1/units/{unit}"),
        await scoped.http.delete(f"/api/v1/units/{unit}"),
        await scoped.http.get("/api/v1/banks/default/freshness"),
    ):
        assert (reply.status_code, reply.json()["error"]["code"]) == (403, "PERMISSION_DENIED")
    assert (await scoped.http.get(f"/api/v1/recall/jobs/{job}")).status_code == 404
    batch = await scoped.http.post("/api/v1/turns:batch", json={"turns": [turn, {**turn, "bank": "work"}]})
    results = batch.json()["results"]
    assert (results[0]["error"]["code"], results[1]["ok"]) == ("PERMISSION_DENIED", True)


async def test_a_unit_is_found_in_its_own_bank_alone(ana: Tenant, turn: dict[str, Any]) -> None:
    await ana.http.post("/api/v1/turns", json=turn)
    unit = (await ana.http.post("/api/v1/recall", json={"query": "Lisbon"})).json()["results"][0]["unit_id"]
    assert (await ana.http.get(f"/api/v1/units/{unit}?bank=other")).status_code == 404
    assert (await ana.http.delete(f"/api/v1/units/{unit}?bank=other")).status_code == 404


async def test_an_empty_grant_means_nothing(world: World, ana: Tenant, turn: dict[str, Any]) -> None:
    nobody = await world.tenant(ana.host, banks=[])
    assert (await nobody.http.post("/api/v1/turns", json=turn)).status_code == 403
    assert (await nobody.http.post("/api/v1/recall", json={"query": "Lisbon"})).status_code == 403
