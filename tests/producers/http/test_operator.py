"""The operator's interface: its own kind of key, every tenant, never content, each call noted."""

import re
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio

from producers.service import operator_work
from store import identity
from store.errors import InvalidTenantName, NotFound
from store.ledger.workers import WorkerRegistry
from store.tenancy.gateway_targets import GatewayTargets
from store.tenancy.keys import Keys
from store.tenancy.operator_keys import OperatorKeys
from store.tenancy.sealing import Sealer
from tests.client.loopback import closed_port
from tests.producers.conftest import Tenant, World
from tests.workers.targets import SEALING, hand_to

V1 = "/api/v1/operator"
SECRET = "Grimpenmire"


@pytest_asyncio.fixture(loop_scope="session")
async def operator(world: World) -> AsyncIterator[httpx.AsyncClient]:
    token = await OperatorKeys(world.database).create("on call", makes_keys=True)
    client = world.client({"authorization": f"Bearer {token}"})
    yield client
    await client.aclose()


async def ask(client: httpx.AsyncClient, method: str, path: str, status: int = 200, **more: Any) -> Any:
    reply = await client.request(method, f"{V1}{path}", **more)
    assert reply.status_code == status, reply.text
    return reply.json() if reply.content else None


@pytest.mark.law("L6")
async def test_an_operators_key_opens_no_content_and_no_other_key_opens_the_operators_calls(
    world: World, operator: httpx.AsyncClient
) -> None:
    tenant = await world.tenant()
    gateway_user = await world.tenant(tenant.host, gateway_user="ana")
    paths = {route.path for route in world.app.routes if route.path.startswith(V1)}
    for path in paths:
        for method in ("GET", "POST", "PUT", "DELETE"):
            reply = await tenant.http.request(method, path)
            assert reply.status_code in {403, 405}, (method, path)
            assert (await gateway_user.http.request(method, path)).status_code in {403, 405}
            assert (await world.client().request(method, path)).status_code in {401, 405}
    contents = [
        route
        for route in world.app.routes
        if route.path.startswith("/api/v1/") and not route.path.startswith((V1, "/api/v1/console/"))
    ]
    assert len(contents) > 30
    for route in contents:
        for method in route.methods or ():
            reply = await operator.request(method, re.sub(r"{[^}]+}", "x", route.path))
            assert reply.status_code == 403, (method, route.path)
            assert "operator" in reply.json()["error"]["message"]
    await gateway_user.http.aclose()


@pytest.mark.law("L7")
async def test_tenants_work_and_audit_are_shown_without_content(
    world: World, operator: httpx.AsyncClient, turn: dict[str, Any]
) -> None:
    tenant = await world.tenant()
    said = {**turn, "bank": f"{SECRET} bank", "messages": [{"role": "user", "content": f"the {SECRET} is deep"}]}
    assert (await tenant.http.post("/api/v1/turns", json=said)).status_code == 201
    host = identity.host_id(tenant.host)
    seen = [
        await ask(operator, "GET", f"/tenants/{host}"),
        await ask(operator, "GET", "/jobs", params={"tenant": tenant.host}),
        await ask(operator, "GET", "/status"),
        await ask(operator, "GET", "/targets"),
        await ask(operator, "GET", "/quotas", params={"tenant": tenant.host}),
    ]
    assert (seen[0]["name"], seen[0]["active_keys"]) == (tenant.host, 1)
    assert {job["stage"] for job in seen[1]["jobs"]} >= {"extraction", "embedding", "projection"}
    assert seen[2]["undone"] >= 3
    assert SECRET not in str(seen)
    await world.recorder.flush()
    calls = (await ask(operator, "GET", "/audit", params={"tenant": tenant.host, "limit": 100}))["calls"]
    noted = [call for call in calls if call["door"] == "operator"]
    assert [call["operation"] for call in noted] == [f"GET {V1}/tenants/{{tenant_id}}"]
    assert noted[0]["key_id"] is not None
    assert SECRET not in str(calls)


async def test_the_audit_is_filtered_by_key_operation_and_age(world: World, operator: httpx.AsyncClient) -> None:
    one, other = await world.tenant(), await world.tenant()
    for tenant in (one, other):
        assert (await tenant.http.get("/api/v1/banks")).status_code == 200
        assert (await tenant.http.get("/api/v1/sessions")).status_code == 200
    await world.recorder.flush()

    async def read(**asked: object) -> set[tuple[str, str]]:
        calls = (await ask(operator, "GET", "/audit", params={"limit": 500, **asked}))["calls"]
        return {(call["key_id"], call["operation"]) for call in calls}

    [(key, _), *_] = await read(tenant=one.host)
    assert await read(key_id=key, operation="GET /api/v1/banks") == {(key, "GET /api/v1/banks")}
    assert await read(key_id=key) == {(key, f"GET /api/v1/{name}") for name in ("banks", "sessions")}
    assert await read(key_id=key, since_s=3600) == await read(key_id=key)
    assert await read(key_id=key, since_s=0) == set()
    for wrong in ({"key_id": "x"}, {"since_s": "nan"}, {"since_s": -1}, {"operation": ""}):
        await ask(operator, "GET", "/audit", 422, params=wrong)


async def test_tenants_are_listed_to_the_end(world: World, operator: httpx.AsyncClient) -> None:
    made = sorted([(await world.tenant()).host for _ in range(3)])
    names: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = await ask(operator, "GET", "/tenants", params={"limit": 2, **cursor})
        names += [one["name"] for one in page["tenants"]]
        if not page["has_more"]:
            break
        cursor = {"cursor": page["cursor"]}
    assert names == sorted(set(names))
    assert set(made) <= set(names)


async def test_a_tenants_keys_are_made_rotated_and_revoked(world: World, operator: httpx.AsyncClient) -> None:
    name = f"host-{uuid4().hex}"
    made = await ask(operator, "POST", "/keys", 201, json={"tenant": name, "label": "bot", "banks": ["open"]})
    bot = world.client({"authorization": f"Bearer {made['key']}"})
    assert (await bot.get("/api/v1/banks")).status_code == 200
    [listed] = (await ask(operator, "GET", "/keys", params={"tenant": name}))["keys"]
    assert (listed["label"], listed["banks"], listed["state"]) == ("bot", ["open"], "active")
    body = {"tenant": name, "overlap_s": 3600}
    after = await ask(operator, "POST", f"/keys/{listed['key_id']}/rotate", 201, json=body)
    newer = world.client({"authorization": f"Bearer {after['key']}"})
    assert (await newer.get("/api/v1/banks")).status_code == 200
    await ask(operator, "POST", f"/keys/{listed['key_id']}/rotate", 404, json=body)
    for key in (await ask(operator, "GET", "/keys", params={"tenant": name}))["keys"]:
        await ask(operator, "DELETE", f"/keys/{key['key_id']}", 204, params={"tenant": name})
        await ask(operator, "DELETE", f"/keys/{key['key_id']}", 404, params={"tenant": name})
    states = [key["state"] for key in (await ask(operator, "GET", "/keys", params={"tenant": name}))["keys"]]
    assert states == ["revoked", "revoked"]
    for client in (bot, newer):
        await client.aclose()


async def test_quotas_are_set_and_dead_work_is_requeued(
    world: World, operator: httpx.AsyncClient, turn: dict[str, Any]
) -> None:
    tenant = await world.tenant()
    await tenant.http.post("/api/v1/turns", json=turn)
    quota = {"tenant": tenant.host, "max_turns": 1}
    assert (await ask(operator, "PUT", "/quotas", json=quota))["quotas"][0]["used"]["turns"] == 1
    assert (await tenant.http.post("/api/v1/turns", json={**turn, "turn_id": "more"})).status_code == 429
    await ask(operator, "PUT", "/quotas", 404, json={"tenant": "nobody at all", "max_turns": 1})
    await world.sql(
        "update afterturn.ledger_t set status = 'dead' where host_id = :host and stage = 'extraction'",
        host=identity.host_id(tenant.host),
    )
    [dead] = (await ask(operator, "GET", "/jobs", params={"tenant": tenant.host, "status": "dead"}))["jobs"]
    again = {"action": "retry", "tenant": tenant.host, "stage": "extraction", "ids": [dead["id"], str(uuid4())]}
    assert await ask(operator, "POST", "/jobs", json=again) == {"ok": True, "changed": 1, "left": 1}
    assert (await ask(operator, "GET", "/jobs", params={"tenant": tenant.host, "status": "dead"}))["jobs"] == []


@pytest.mark.law("L6")
async def test_an_operators_key_makes_no_key_that_reads_unless_it_has_that_right(
    world: World, operator: httpx.AsyncClient
) -> None:
    tenant = await world.tenant()
    plain = world.client({"authorization": f"Bearer {await OperatorKeys(world.database).create('plain')}"})
    [known] = (await ask(plain, "GET", "/keys", params={"tenant": tenant.host}))["keys"]
    asked: dict[str, Any] = {"tenant": tenant.host, "label": "mine"}
    refused = await ask(plain, "POST", "/keys", 403, json=asked)
    assert "--makes-keys" in refused["error"]["message"]
    await ask(plain, "POST", f"/keys/{known['key_id']}/rotate", 403, json={"tenant": tenant.host})
    assert len((await ask(plain, "GET", "/keys", params={"tenant": tenant.host}))["keys"]) == 1
    assert (await ask(operator, "POST", "/keys", 201, json=asked))["key"].startswith("at_")
    assert await world.recorder.flush()
    calls = (await ask(operator, "GET", "/audit", params={"operation": f"POST {V1}/keys"}))["calls"]
    assert {one["status"] for one in calls} >= {201, 403}
    await ask(plain, "DELETE", f"/keys/{known['key_id']}", 204, params={"tenant": tenant.host})
    await plain.aclose()


@pytest.mark.parametrize(
    "name", ["acme\u200b", "ac\u00adme", "acme\u202e", "acme ", "a  b", "a\u00a0b", "cafe\u0301", "a\u3164", "a\ufe0f"]
)
async def test_a_tenants_name_that_can_look_like_anothers_is_refused(
    world: World, operator: httpx.AsyncClient, name: str
) -> None:
    refused = await ask(operator, "POST", "/keys", 422, json={"tenant": name, "label": "x"})
    assert refused["error"]["code"] == "INVALID_ARGUMENT"
    for create in (Keys(world.database).create(name, "x"), Keys(world.database).add_host(name)):
        with pytest.raises(InvalidTenantName):
            await create
    rows = await world.sql("select 1 from afterturn.host_t where host_id = :host", host=identity.host_id(name))
    assert rows == []


@pytest.mark.parametrize("name", ["acme", "Café Zürich", "組織 7", "परीक्षा", "a-b_c.d:e/f@g"])
async def test_any_other_name_is_a_tenants(world: World, name: str) -> None:
    assert await Keys(world.database).create(f"{name} {uuid4().hex}", "x")


async def test_a_key_that_is_revoked_or_expired_opens_nothing(world: World) -> None:
    keys = OperatorKeys(world.database)
    token = await keys.create("short", world.clock() - timedelta(seconds=1))
    client = world.client({"authorization": f"Bearer {token}"})
    await ask(client, "GET", "/status", 401)
    [known] = [key for key in await keys.list() if key.label == "short"]
    assert known.state == "expired"
    await keys.revoke(known.key_id)
    with pytest.raises(NotFound):
        await keys.revoke(known.key_id)
    await client.aclose()


@pytest.mark.law("L7")
async def test_work_is_paged_counted_and_shown_without_content(
    world: World, operator: httpx.AsyncClient, turn: dict[str, Any]
) -> None:
    tenant, other = await world.tenant(), await world.tenant()
    for nth in range(3):
        said = {**turn, "bank": SECRET, "session_id": SECRET, "turn_id": f"{SECRET} {nth}"}
        await tenant.http.post("/api/v1/turns", json=said)
    await other.http.post("/api/v1/turns", json=turn)
    where = {"tenant": tenant.host, "bank": SECRET, "stage": "embedding"}
    asked, listed = {**where, "limit": 2}, list[dict[str, Any]]()
    while True:
        page = await ask(operator, "GET", "/jobs", params=asked)
        listed += page["jobs"]
        if not page["has_more"]:
            break
        asked["cursor"] = page["cursor"]
    assert [row["tenant"] for row in listed] == [tenant.host] * 3
    assert len({row["id"] for row in listed}) == 3
    await ask(operator, "GET", "/jobs", 422, params={**asked, "stage": "extraction"})
    await ask(operator, "GET", "/jobs", 422, params={"bank": SECRET})
    counts = await ask(operator, "GET", "/jobs/count", params=where)
    assert counts.pop("counted_at")
    assert counts == {"pending": 3, "running": 0, "unknown": 0, "dead": 0}
    assert (await ask(operator, "GET", "/jobs/count", params={**where, "status": "dead"}))["pending"] == 0
    assert (await ask(operator, "GET", "/jobs/count", params={**where, "older_than_s": 3600}))["pending"] == 0
    shown = await ask(operator, "GET", f"/jobs/{listed[0]['id']}", params={"tenant": tenant.host})
    assert {row["stage"] for row in shown["jobs"]} >= {"extraction", "embedding", "projection"}
    await ask(operator, "GET", f"/jobs/{listed[0]['id']}", 404, params={"tenant": other.host})
    await ask(operator, "GET", f"/jobs/{uuid4()}", 404)
    assert SECRET not in str([listed, shown])
    await world.recorder.flush()
    calls = (await ask(operator, "GET", "/audit", params={"tenant": tenant.host}))["calls"]
    assert f"GET {V1}/jobs/{{job_id}}" in {call["operation"] for call in calls}
    assert SECRET not in str(calls)


@pytest.mark.law("L6")
async def test_names_of_tenants_are_told_to_a_key_that_may_make_keys_and_asks_for_them(
    world: World, operator: httpx.AsyncClient, turn: dict[str, Any]
) -> None:
    tenant = await world.tenant()
    plain = world.client({"authorization": f"Bearer {await OperatorKeys(world.database).create('plain')}"})
    host = identity.host_id(tenant.host)
    await hand_to(world.database, host, closed_port(), bank=identity.bank_id(host, SECRET), user="named")
    said = {**turn, "bank": SECRET, "session_id": "monday", "gateway": True}
    assert (await tenant.http.post("/api/v1/turns", json=said)).status_code == 201
    where = {"tenant": tenant.host, "stage": "gateway"}
    for client, asked, named in ((operator, "true", True), (operator, "false", False), (plain, "true", False)):
        [row] = (await ask(client, "GET", "/jobs", params={**where, "names": asked}))["jobs"]
        assert (row["bank"], row["gateway"] and row["gateway"]["session"]) == (
            (SECRET, "chat:monday") if named else (None, None)
        )
        shown = await ask(client, "GET", f"/jobs/{row['id']}", params={"tenant": tenant.host, "names": asked})
        assert {one["bank"] for one in shown["jobs"]} == ({SECRET} if named else {None})
        [target] = (await ask(client, "GET", "/targets", params={"tenant": tenant.host, "names": asked}))["targets"]
        assert target["bank"] == (SECRET if named else None)
    await plain.aclose()


async def test_a_filter_by_what_is_not_there_is_refused_and_one_by_state_finds_deliveries(
    world: World, operator: httpx.AsyncClient, turn: dict[str, Any]
) -> None:
    tenant = await world.tenant()
    host = identity.host_id(tenant.host)
    await hand_to(world.database, host, closed_port(), user=tenant.host)
    assert (await tenant.http.post("/api/v1/turns", json={**turn, "gateway": True})).status_code == 201
    for path, wrong in (
        ("/jobs", {"tenant": "nobody at all"}),
        ("/jobs/count", {"tenant": tenant.host, "bank": "misspelt"}),
        ("/keys", {"tenant": "nobody at all"}),
        ("/quotas", {"tenant": "nobody at all"}),
        ("/targets", {"tenant": "nobody at all"}),
        ("/jobs", {"state": "add_failed"}),
    ):
        [problem] = (await ask(operator, "GET", path, 422, params=wrong))["error"]["details"]["problems"]
        assert problem["field"] in {"tenant", "bank", "state"}
    failed = "update afterturn.ledger_t set status = 'add_failed' where host_id = :host and stage = 'gateway'"
    await world.sql(failed, host=host)
    where = {"tenant": tenant.host, "stage": "gateway"}
    assert (await ask(operator, "GET", "/jobs/count", params={**where, "state": "add_failed"}))["dead"] == 1
    [row] = (await ask(operator, "GET", "/jobs", params={**where, "state": "add_failed"}))["jobs"]
    assert (await ask(operator, "GET", "/jobs", params={**where, "state": "flush_failed"}))["jobs"] == []
    settle = f"/jobs/{row['turn_id']}/settle"
    await ask(operator, "POST", settle, 422, json={"found": "not-delivered"})
    await ask(operator, "POST", settle, 409, json={"found": "delivered", "then": "retry"})
    done = await ask(operator, "POST", settle, json={"found": "not-delivered", "then": "skip"})
    assert (done["was"], done["state"]) == ("add_failed", "skipped")
    await ask(operator, "POST", settle, 404, json={"found": "delivered"})


#: Makes work of a tenant fail in a stage, as if a worker had closed it so.
FAIL = "update afterturn.ledger_t set status = :status, attempts = 5 where host_id = :host and stage = :stage"


async def add_failed_turns(world: World, tenant: Tenant, turn: dict[str, Any], names: Sequence[str]) -> None:
    """Store turns whose work in a stage is dead; other rows of the tenant stay as they are."""
    for name in names:
        assert (await tenant.http.post("/api/v1/turns", json={**turn, "turn_id": name})).status_code == 201
        turns = identity.host_id(tenant.host), name
        session = identity.session_id(identity.bank_id(turns[0], "default"), turn["session_id"])
        await world.sql(
            f"{FAIL} and turn_id = :turn returning 1",
            host=turns[0],
            stage="embedding",
            status="dead",
            turn=identity.turn_id(session, name),
        )


async def read_statuses(world: World, tenant: Tenant, stage: str) -> list[str]:
    statement = "select status from afterturn.ledger_t where host_id = :host and stage = :stage order by position"
    return [row.status for row in await world.sql(statement, host=identity.host_id(tenant.host), stage=stage)]


async def test_all_that_match_and_were_counted_are_changed_by_one_call(
    world: World, operator: httpx.AsyncClient, turn: dict[str, Any]
) -> None:
    tenant, other = await world.tenant(), await world.tenant()
    await add_failed_turns(world, tenant, turn, ["1", "2", "3"])
    await add_failed_turns(world, other, turn, ["1"])
    where = {"tenant": tenant.host, "status": "dead"}
    counted = await ask(operator, "GET", "/jobs/count", params=where)
    assert counted["dead"] == 3
    # What fails after the count was not asked about.
    await add_failed_turns(world, tenant, turn, ["4"])
    body = {"action": "retry", "where": where, "counted_at": counted["counted_at"]}
    done = await ask(operator, "POST", "/jobs/matching", json=body)
    assert done == {"ok": True, "changed": 3, "left": 0, "cursor": None}
    assert await read_statuses(world, tenant, "embedding") == ["pending"] * 3 + ["dead"]
    assert await read_statuses(world, other, "embedding") == ["dead"]
    again = await ask(operator, "POST", "/jobs/matching", json=body)
    assert (again["changed"], again["left"]) == (0, 0)
    later = (await ask(operator, "GET", "/jobs/count", params=where))["counted_at"]
    dropped = {"action": "drop", "where": where, "counted_at": later, "reason": "no use"}
    assert (await ask(operator, "POST", "/jobs/matching", json=dropped))["changed"] == 1
    assert await read_statuses(world, tenant, "embedding") == ["pending"] * 3 + ["skipped"]
    await world.recorder.flush()
    calls = (await ask(operator, "GET", "/audit", params={"tenant": tenant.host}))["calls"]
    assert f"POST {V1}/jobs/matching" in {call["operation"] for call in calls}


async def test_what_one_call_has_no_time_for_is_changed_by_the_next(
    world: World, operator: httpx.AsyncClient, turn: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_work, "MOST_CHANGED", 2)
    monkeypatch.setattr(operator_work, "TOGETHER_S", 0.0)
    tenant = await world.tenant()
    await add_failed_turns(world, tenant, turn, ["1", "2", "3", "4", "5"])
    where = {"tenant": tenant.host, "status": "dead", "stage": "embedding"}
    counted = await ask(operator, "GET", "/jobs/count", params=where)
    body = {"action": "retry", "where": where, "counted_at": counted["counted_at"]}
    told, cursor = list[int](), None
    while not told or cursor:
        done = await ask(operator, "POST", "/jobs/matching", json={**body, "cursor": cursor})
        told, cursor = [*told, done["changed"]], done["cursor"]
    assert told == [2, 2, 1]
    assert await read_statuses(world, tenant, "embedding") == ["pending"] * 5
    await ask(operator, "POST", "/jobs/matching", 422, json={**body, "action": "drop", "cursor": "another list's"})


async def test_deliveries_that_match_are_settled_by_one_finding(
    world: World, operator: httpx.AsyncClient, turn: dict[str, Any]
) -> None:
    tenant = await world.tenant()
    host = identity.host_id(tenant.host)
    await hand_to(world.database, host, closed_port(), user=tenant.host)
    for name in ("1", "2"):
        said = {**turn, "turn_id": name, "gateway": True}
        assert (await tenant.http.post("/api/v1/turns", json=said)).status_code == 201
    await world.sql(f"{FAIL} returning 1", host=host, stage="gateway", status="add_unknown")
    where = {"tenant": tenant.host, "stage": "gateway", "state": "add_unknown"}
    counted = await ask(operator, "GET", "/jobs/count", params=where)
    assert counted["unknown"] == 2
    body = {"action": "settle", "where": where, "counted_at": counted["counted_at"], "found": "not-delivered"}
    for wrong in (body, {**body, "found": None}, {**body, "where": {"tenant": tenant.host}, "then": "skip"}):
        await ask(operator, "POST", "/jobs/matching", 422, json=wrong)
    done = await ask(operator, "POST", "/jobs/matching", json={**body, "then": "skip"})
    assert (done["changed"], done["left"]) == (2, 0)
    assert await read_statuses(world, tenant, "gateway") == ["skipped"] * 2
    # A delivery that may have arrived is never sent again by itself (L9): it is no row to retry.
    retry = {"action": "retry", "where": {"tenant": tenant.host}, "counted_at": counted["counted_at"]}
    await ask(operator, "POST", "/jobs/matching", 422, json=retry)


async def test_workers_are_listed_and_drained(world: World, operator: httpx.AsyncClient) -> None:
    registry, name = WorkerRegistry(world.database), f"app-1:1:{uuid4().hex[:8]}"
    await registry.begin(name, "0.1.0", ["embedding"])
    [listed] = [one for one in (await ask(operator, "GET", "/workers"))["workers"] if one["worker"] == name]
    assert (listed["state"], listed["stages"], listed["claims"]) == ("working", ["embedding"], 0)
    drained = await ask(operator, "POST", "/workers/drain", json={"workers": [name, "nobody:1:2"]})
    assert drained == {"ok": True, "draining": [name]}
    assert await registry.beat(name) == "draining"
    for wrong in ({}, {"workers": [name], "everyone": True}, {"workers": name}):
        await ask(operator, "POST", "/workers/drain", 422, json=wrong)
    await registry.end(name)
    await world.recorder.flush()
    # Calls of tests that moved the clock are newer than any of today.
    calls = (await ask(operator, "GET", "/audit", params={"operation": f"POST {V1}/workers/drain"}))["calls"]
    assert 200 in {call["status"] for call in calls}


async def test_settings_in_force_are_shown_with_their_origin_and_no_secret(
    world: World, operator: httpx.AsyncClient
) -> None:
    told = await ask(operator, "GET", "/settings")
    shown = {one["key"]: (one["value"], one["origin"]) for one in told["settings"]}
    assert shown["api.port"] == (8300, "default")
    assert shown["database.url"][1] == "environment AFTERTURN_DATABASE__URL"
    for secret in (world.postgres.app_url, world.postgres.operator_url):
        password = urlsplit(secret).password
        assert password
        assert password not in str(told)
    assert "********" in shown["database.url"][0]


async def test_the_installation_is_checked_from_the_process_that_serves_it(operator: httpx.AsyncClient) -> None:
    told = await ask(operator, "GET", "/doctor")
    found = {one["subject"]: one["verdict"] for one in told["findings"]}
    assert {name: found[name] for name in ("PostgreSQL version", "tenant isolation", "migrations", "log", "Redis")} == (
        dict.fromkeys(("PostgreSQL version", "tenant isolation", "migrations", "log", "Redis"), "ok")
    )
    assert told["healthy"] == ("fail" not in found.values())
    assert all(one["remedy"] for one in told["findings"] if one["verdict"] != "ok")


async def test_a_gateway_target_is_set_and_unset_and_its_key_never_shown(
    world: World, operator: httpx.AsyncClient
) -> None:
    tenant, other = await world.tenant(), await world.tenant()
    body = {"tenant": tenant.host, "url": "https://gateway.example:443/", "user_id": tenant.host, "user_key": SECRET}
    [made] = (await ask(operator, "PUT", "/targets", json=body))["targets"]
    assert (made["url"], made["state"], made["key"]) == ("https://gateway.example", "in force", "sealed")
    listed = await ask(operator, "GET", "/targets", params={"tenant": tenant.host})
    assert SECRET not in str((made, listed))
    [sealed] = [one for one in await GatewayTargets(world.database).sealed() if one.user.user_id == tenant.host]
    assert Sealer([SEALING]).open(sealed.sealed_key or "", sealed.seal_place) == SECRET
    taken = await ask(operator, "PUT", "/targets", 409, json={**body, "tenant": other.host})
    assert taken["error"]["code"] == "TARGET_TAKEN"
    mistakes: tuple[dict[str, Any], ...] = (
        {"url": "http://elsewhere.example"},
        {"url": "nothing"},
        {"scope": []},
        {"tenant": "nobody"},
    )
    for wrong in mistakes:
        refused = await ask(operator, "PUT", "/targets", 422, json={**body, **wrong})
        assert SECRET not in str(refused)
    said = {"session_id": "s", "turn_id": "1", "messages": [{"role": "user", "content": "We fly on Friday"}]}
    assert (await tenant.http.post("/api/v1/turns", json={**said, "gateway": True})).status_code == 201
    unset = await ask(operator, "DELETE", "/targets", params={"tenant": tenant.host})
    assert (unset["targets"], unset["skipped"]) == ([made["target_id"]], 1)
    assert (await ask(operator, "DELETE", "/targets", params={"tenant": tenant.host}))["targets"] == []
    await world.recorder.flush()
    calls = (await ask(operator, "GET", "/audit", params={"tenant": tenant.host, "door": "operator"}))["calls"]
    assert [call["operation"] for call in calls if "targets" in call["operation"] and call["status"] == 200][:3] == [
        f"DELETE {V1}/targets",
        f"DELETE {V1}/targets",
        f"PUT {V1}/targets",
    ]


async def test_turns_are_given_to_a_gateway_by_an_operator_who_makes_keys_alone(world: World) -> None:
    tenant = await world.tenant()
    plain = world.client({"authorization": f"Bearer {await OperatorKeys(world.database).create('on call')}"})
    body = {"tenant": tenant.host, "url": "https://gateway.example", "user_id": tenant.host, "user_key": SECRET}
    await ask(plain, "PUT", "/targets", 403, json=body)
    assert (await ask(plain, "GET", "/targets", params={"tenant": tenant.host}))["targets"] == []
    await plain.aclose()
