"""L7: content and secrets stay where they belong. Distinctive values go in at every place; no sink may show one."""

import io
import logging
from typing import Any

import pytest
import structlog
from prometheus_client import REGISTRY, generate_latest

from tests.patience import until
from tests.producers.conftest import Tenant, World

pytestmark = pytest.mark.law("L7")

SECRETS = {
    "content": "zq81content",
    "name": "zq81speaker",
    "session": "zq81session",
    "turn": "zq81turn",
    "bank": "zq81bank",
    "user": "zq81user",
    "metadata": "zq81metadata",
    "question": "zq81question",
    "field": "zq81field",
}
MARK = "zq81"


@pytest.fixture
def log() -> Any:
    """Everything this process logs, at the finest level, by structlog and by the standard library."""
    sink = io.StringIO()
    before = structlog.get_config()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sink), cache_logger_on_first_use=False)
    handler = logging.StreamHandler(sink)
    # The client of this test speaks of what it sends, and it is no part of the service.
    handler.addFilter(lambda record: not record.name.startswith("http"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield sink
    root.setLevel(level)
    root.removeHandler(handler)
    structlog.configure(**before)


async def everything(world: World, ana: Tenant) -> None:
    """Use every call, well and badly, with the distinctive values in every place that takes a value."""
    s = SECRETS
    turn = {
        "bank": s["bank"],
        "session_id": s["session"],
        "turn_id": s["turn"],
        "user_id": s["user"],
        "metadata": {s["field"]: s["metadata"]},
        "messages": [{"role": "user", "name": s["name"], "content": f"{s['content']} in Lisbon"}],
    }
    bad = [
        {**turn, s["field"]: 1},
        {**turn, "session_id": s["session"] + "/"},
        {**turn, "occurred_at": s["content"]},
        {**turn, "messages": [{"role": s["content"], "content": s["content"]}]},
        {**turn, "messages": [{"role": "user", "content": s["content"] + "\x00"}]},
        {**turn, "metadata": {s["field"]: 1}},
        {**turn, "messages": [{"role": "user", "content": s["content"] + " changed"}]},
    ]
    http = ana.http
    await http.post("/api/v1/turns", json=turn)
    for body in bad:
        await http.post("/api/v1/turns", json=body)
    await http.post("/api/v1/turns:batch", json={"turns": [turn, *bad]})
    await http.post("/api/v1/turns", content=f'{{"{s["content"]}'.encode())
    await http.get(f"/api/v1/turns/{s['session']}/{s['turn']}", params={"bank": s["bank"]})
    await http.get(f"/api/v1/turns/{s['session']}/{s['turn']}", params={s["field"]: s["bank"]})
    await http.get(f"/{s['content']}")
    question = {"query": s["question"], "bank": s["bank"], "session_id": s["session"], "k": 5}
    recalled = await http.post("/api/v1/recall", json=question)
    await http.post("/api/v1/recall", json={**question, "k": s["content"]})
    await http.post("/api/v1/recall", json={**question, "min_position": 2**62})
    await http.post("/api/v1/recall/jobs", json=question)
    await http.get(f"/api/v1/banks/{s['bank']}/freshness")
    unit = recalled.json()["results"][0]["unit_id"]
    for body in ({"content": s["content"] + " corrected"}, {"content": s["content"] + "\x00"}, {s["field"]: 1}):
        await http.patch(f"/api/v1/units/{unit}", params={"bank": s["bank"]}, json=body)
    for call in (http.get, http.delete):
        await call(f"/api/v1/units/{unit}", params={"bank": s["bank"]})
    async with world.client({"authorization": f"Bearer {s['content']}"}) as stranger:
        await stranger.post("/api/v1/turns", json=turn)
    user = await world.tenant(gateway_user=s["user"])
    said = {"sender_id": s["user"], "role": "user", "timestamp": 1, "content": s["content"]}
    told = {"user_id": s["user"], "user_key": user.token, "session_id": s["session"], "messages": [said]}
    await user.http.post("/memories/add", json=told)
    await user.http.post("/memories/add", json={**told, "user_key": s["content"]})
    await user.http.post("/memories/add", json={**told, "messages": [{**said, "timestamp": s["content"]}]})
    await until(lambda: b".msgs" in _redis(world), "what was rung for is in Redis")


async def test_no_value_of_a_caller_reaches_log_metrics_or_redis(world: World, ana: Tenant, log: io.StringIO) -> None:
    await everything(world, ana)
    written = log.getvalue()
    assert "/api/v1/turns" in written
    assert MARK not in written
    assert ana.token not in written
    assert MARK not in generate_latest(REGISTRY).decode()
    assert MARK.encode() not in _redis(world)


async def test_no_value_of_a_caller_reaches_the_call_audit(world: World, ana: Tenant) -> None:
    await everything(world, ana)
    assert await world.recorder.flush()
    rows = await world.sql("select cast(c as text) as row from afterturn.call_audit_t c")
    assert "/api/v1/turns/{session_id}" in str(rows)
    assert "/memories/add" in str(rows)
    assert MARK not in str(rows)
    assert ana.token not in str(rows)


def _counted_routes() -> dict[str, float]:
    """The requests counted in this process so far, by route."""
    routes: dict[str, float] = {}
    for family in REGISTRY.collect():
        for sample in family.samples:
            if sample.name == "afterturn_http_requests_total":
                routes[sample.labels["route"]] = routes.get(sample.labels["route"], 0.0) + sample.value
    return routes


async def test_metrics_carry_no_host_bank_or_session(world: World, ana: Tenant) -> None:
    # Other tests of this process were counted too, those of other applications among them.
    before = _counted_routes()
    await everything(world, ana)
    labels = {name for family in REGISTRY.collect() for sample in family.samples for name in sample.labels}
    assert not labels & {"host", "bank", "session", "turn", "user", "tenant", "key"}
    routes = {route for route, count in _counted_routes().items() if count != before.get(route)}
    assert "/api/v1/turns/{session_id}/{turn_id:name}" in routes
    assert MARK not in str(routes)
    assert routes <= {"unrouted", *(getattr(route, "path", "") for route in world.app.routes)}


async def test_a_failing_statement_does_not_carry_its_parameters_into_the_log(
    world: World, ana: Tenant, log: io.StringIO, turn: dict[str, Any]
) -> None:
    await world.sql("alter table afterturn.turn_t add constraint broken check (turn_id is null) not valid")
    try:
        reply = await ana.http.post(
            "/api/v1/turns", json={**turn, "messages": [{"role": "user", "content": SECRETS["content"]}]}
        )
    finally:
        await world.sql("alter table afterturn.turn_t drop constraint broken")
    assert reply.status_code == 500
    assert MARK not in reply.text
    assert "CheckViolationError" in log.getvalue()
    assert MARK not in log.getvalue()


def _redis(world: World) -> bytes:
    """Everything in Redis under this API's names: keys and values."""
    client, found = world.broker.client, []
    for key in client.scan_iter(f"{world.broker.namespace}*"):
        found.append(key)
        found.append(client.dump(key) or b"")
        if client.type(key) == b"hash":
            found += client.hvals(key)
    return b"\n".join(found)
