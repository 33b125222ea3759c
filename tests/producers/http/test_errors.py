"""Every failure looks the same outside, says nothing of what was said, and is never a 500."""

import importlib
import pkgutil
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import orjson
import pytest
from afterturn_client.contract.health import Readiness
from pydantic import SecretStr
from pydantic_core import PydanticCustomError
from structlog.testing import capture_logs

import store
from producers.fair_queue import FairQueue
from producers.host_names import check_host_name
from producers.http.error_responses import INTERNAL, error_response, error_to_wire
from producers.http.middleware import CallMiddleware
from producers.settings import ApiSettings, FairnessSettings
from store.database import Database
from store.errors import InvalidEvent, MissingParent, RestoredElsewhere, StoreError, VersionGap
from store.replay.shadow import ErasedMeanwhileError
from store.settings import DatabaseSettings
from tests.producers.conftest import Tenant, World, broker_of, build
from tests.servers import TestPostgres, TestValkey
from tests.tables import each_row

TURNS = "/api/v1/turns"


def assert_refused(reply: httpx.Response, status: int, code: str, *, retryable: bool = False) -> dict[str, Any]:
    assert reply.status_code == status, reply.text
    body = reply.json()
    assert set(body) == {"error", "request_id"}
    assert set(body["error"]) == {"code", "message", "retryable", "details"}
    assert (body["error"]["code"], body["error"]["retryable"]) == (code, retryable)
    assert body["request_id"] == reply.headers["x-request-id"]
    error: dict[str, Any] = body["error"]
    return error


@each_row(
    "body", [b"", b"{", b"nonsense", b"\xff\xfe", b'{"a": NaN}', b'{"a": Infinity}', b"[" * 100_000, b'{"a": "\x00"}']
)
@each_row("path", [TURNS, TURNS + ":batch", "/api/v1/recall", "/api/v1/recall/jobs", "/memories/add"])
async def test_what_is_not_json_is_malformed(ana: Tenant, path: str, body: bytes) -> None:
    assert_refused(await ana.http.post(path, content=body), 400, "BAD_REQUEST")


@each_row("body", [b'{"session_id": "\\ud800"}', b'{"session_id": 1e999}', b"7", b"null", b'"text"', b"[]"])
@each_row("path", [TURNS, TURNS + ":batch", "/api/v1/recall"])
async def test_what_is_json_but_no_turn_is_invalid(ana: Tenant, path: str, body: bytes) -> None:
    error = assert_refused(await ana.http.post(path, content=body), 422, "INVALID_ARGUMENT")
    assert error["details"]["problems"]


@pytest.mark.parametrize(
    "body",
    [b'{"messages": [' + b"{}," * 60_000 + b"{}]}", b'{"session_id": "s", "parts": [' + b"0," * 60_000 + b"0]}"],
)
@pytest.mark.parametrize("path", [TURNS, TURNS + ":batch", "/api/v1/recall", "/memories/add"])
async def test_more_values_than_a_request_needs_are_refused_before_they_are_checked(
    ana: Tenant, path: str, body: bytes
) -> None:
    error = assert_refused(await ana.http.post(path, content=body), 422, "INVALID_ARGUMENT")
    [problem] = error["details"]["problems"]
    assert "more than 50000 JSON values" in problem["problem"]


def deep_turn(levels: int) -> str:
    part = '{"a":' * levels + "1" + "}" * levels
    item = f'{{"type": "message", "role": "user", "content": [{{"type": "x", "y": {part}}}]}}'
    return (
        f'"session_id": "s", "turn_id": "t", "messages": [{item}], "input_items": [{item}], "current_input": [{item}]'
    )


@pytest.mark.parametrize("levels", [100, 500, 900])
async def test_a_turn_of_very_many_levels_is_refused_and_the_others_of_its_batch_are_kept(
    ana: Tenant, levels: int
) -> None:
    for path in (TURNS, f"{TURNS}/before", f"{TURNS}/after"):
        assert_refused(await ana.http.post(path, content=f"{{{deep_turn(levels)}}}"), 422, "INVALID_ARGUMENT")
    good = orjson.dumps(
        {"session_id": "s", "turn_id": f"good-{levels}", "messages": [{"role": "user", "content": "x"}]}
    )
    body = f'{{"turns": [{{{deep_turn(levels)}}}, {good.decode()}]}}'
    kept = (await ana.http.post(f"{TURNS}:batch", content=body)).json()["results"]
    assert ["error" in one for one in kept] == [True, False], kept


async def test_of_very_many_wrong_fields_the_number_is_told(ana: Tenant) -> None:
    body = {"query": "who?", **{f"field {n}": 1 for n in range(5_000)}}
    error = assert_refused(await ana.http.post("/api/v1/recall", json=body), 422, "INVALID_ARGUMENT")
    [problem] = error["details"]["problems"]
    assert "5000 wrong fields" in problem["problem"]


@each_row(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer nonsense",
        "Basic dXNlcjpwYXNz",
        "nonsense",
        "Bearer \u00fc",
        "bearer at_x",
    ],
)
@each_row(
    "method, path",
    [
        ("POST", TURNS),
        ("POST", TURNS + ":batch"),
        ("GET", TURNS + "/s/t"),
        ("POST", "/api/v1/recall"),
        ("POST", "/api/v1/recall/jobs"),
        ("GET", "/api/v1/recall/jobs/x"),
        ("DELETE", "/api/v1/recall/jobs/x"),
        ("GET", "/api/v1/banks/b/freshness"),
        ("GET", "/api/v1/units/x"),
        ("DELETE", "/api/v1/units/x"),
        ("PATCH", "/api/v1/units/x"),
    ],
)
async def test_without_a_key_nothing_is_done(world: World, method: str, path: str, authorization: str | None) -> None:
    headers = {} if authorization is None else {b"authorization": authorization.encode("latin-1")}
    async with world.client() as client:
        reply = await client.request(method, path, headers=headers, content=b"{not even json")
    assert_refused(reply, 401, "UNAUTHENTICATED")
    assert reply.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1/turn", "/api/v1/turns/", "/api/v2/turns", "/memories", "/%00", "/.."]
)
async def test_an_unknown_path_is_not_found(ana: Tenant, path: str) -> None:
    assert_refused(await ana.http.get(path), 404, "NOT_FOUND")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "DELETE", "TRACE"])
async def test_a_method_that_is_not_taken_says_which_are(ana: Tenant, method: str) -> None:
    reply = await ana.http.request(method, TURNS)
    assert_refused(reply, 405, "METHOD_NOT_ALLOWED")
    assert reply.headers["allow"] == "POST"
    assert not [name for name in reply.headers if name.startswith("access-control")]


async def test_a_request_past_its_limit_is_refused_before_it_is_read(ana: Tenant) -> None:
    error = assert_refused(await ana.http.post(TURNS, content=b"x" * 2_097_153), 413, "PAYLOAD_TOO_LARGE")
    assert error["details"] == {"field": "the request", "limit": "max_request_bytes", "limit_bytes": 2_097_152}


async def test_a_request_that_hides_its_length_is_cut_at_the_limit(ana: Tenant) -> None:
    sent = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1000):
            sent += 1
            yield b"x" * 65_536

    assert_refused(await ana.http.post(TURNS, content=chunks()), 413, "PAYLOAD_TOO_LARGE")
    assert sent < 40


async def test_a_message_past_its_limit_names_the_limit(ana: Tenant, turn: dict[str, Any]) -> None:
    large = {**turn, "messages": [{"role": "user", "content": "x" * 262_145}]}
    error = assert_refused(await ana.http.post(TURNS, json=large), 413, "PAYLOAD_TOO_LARGE")
    assert error["details"]["limit"] == "max_message_bytes"


async def test_a_key_for_reading_cannot_write(world: World, turn: dict[str, Any]) -> None:
    reader = await world.tenant(write=False)
    for path, body in ((TURNS, turn), (TURNS + ":batch", {"turns": [turn]})):
        assert_refused(await reader.http.post(path, json=body), 403, "PERMISSION_DENIED")
    assert_refused(
        await reader.http.delete("/api/v1/units/7b1f7c1e-0000-5000-8000-000000000000"), 403, "PERMISSION_DENIED"
    )
    assert (await reader.http.post("/api/v1/recall", json={"query": "Lisbon"})).status_code == 200


async def test_a_gateways_key_opens_no_other_door(world: World, turn: dict[str, Any]) -> None:
    user = await world.tenant(gateway_user="ana")
    assert_refused(await user.http.post(TURNS, json=turn), 403, "PERMISSION_DENIED")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8300", "127.0.0.1.evil.example", "localhost.evil.example", "[::2]:1", ""]
)
async def test_a_foreign_name_that_points_here_is_refused(world: World, host: str) -> None:
    async with world.client() as client:
        reply = await client.get("/health/live", headers={"host": host})
    assert_refused(reply, 403, "PERMISSION_DENIED")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8300", "127.0.0.1:1", "127.9.9.9", "[::1]:8300", "localhost."]
)
async def test_this_machines_own_names_are_served(world: World, host: str) -> None:
    async with world.client() as client:
        assert (await client.get("/health/live", headers={"host": host})).status_code == 200


async def test_no_origin_is_allowed_to_use_the_door_from_a_browser(ana: Tenant) -> None:
    for origin, status in (("https://evil.example", 403), ("null", 403), ("http://localhost:6274", 200)):
        reply = await ana.http.post("/api/v1/recall", json={"query": "x"}, headers={"origin": origin})
        assert reply.status_code == status, origin
        assert not [name for name in reply.headers if name.startswith("access-control")]


async def test_only_the_host_names_that_are_set_lead_here(world: World, valkey: TestValkey) -> None:
    settings = ApiSettings(host="0.0.0.0", allowed_hosts=("Memory.example", "other.example:8443", "web.example:443"))
    named = build(world.postgres, broker_of(valkey.url, "named"), settings=settings)
    cases = {
        "memory.example:8300": 200,
        "memory.example.": 200,
        "localhost": 200,
        "other.example:8443": 200,
        "OTHER.example:8443": 200,
        "other.example": 403,
        "other.example:8300": 403,
        "web.example": 200,
        "web.example:443": 200,
        "evil.example": 403,
        "10.1.2.3.evil.example": 403,
    }
    try:
        async with named.client() as client:
            for host, status in cases.items():
                assert (await client.get("/health/live", headers={"host": host})).status_code == status, host
            # Probes and scrapers ask by address; nothing else may.
            for host in ("10.1.2.3:8300", "10.1.2.3", "[fd00::1]:8300"):
                for path in ("/health/live", "/health/ready", "/metrics"):
                    assert (await client.get(path, headers={"host": host})).status_code == 200, (host, path)
                assert (await client.get("/api/v1/banks", headers={"host": host})).status_code == 403, host
            origin = {"host": "other.example:8443", "origin": "https://other.example:8443"}
            assert (await client.get("/health/live", headers=origin)).status_code == 200
            origin |= {"origin": "https://10.1.2.3"}
            assert (await client.get("/health/live", headers=origin)).status_code == 403
    finally:
        await named.close()


@each_row("host", ["[::1", "::1]", "[a]", "[a.example]:80"])
def test_what_stands_in_brackets_is_an_address(host: str) -> None:
    with pytest.raises(PydanticCustomError):
        check_host_name(host)


async def test_when_the_database_is_away_a_write_is_refused_and_can_be_tried_again(
    postgres: TestPostgres, valkey: TestValkey, world: World, turn: dict[str, Any]
) -> None:
    tenant = await world.tenant()
    cut_off = build(postgres, broker_of(valkey.url, "cut-off"), settings=ApiSettings())
    async with cut_off.client({"authorization": f"Bearer {tenant.token}"}) as client:
        assert (await client.post(TURNS, json=turn)).status_code == 201
        away = DatabaseSettings(
            url=SecretStr("postgresql+asyncpg://nobody:secret@127.0.0.1:9/none"),
            operator_url=SecretStr("postgresql+asyncpg://nobody:secret@127.0.0.1:9/none"),
        )
        gone = Database(away)
        await cut_off.database.close()
        cut_off.database._app, cut_off.database._operator = gone._app, gone._operator
        for path, body in ((TURNS, turn), ("/api/v1/recall", {"query": "Lisbon"})):
            reply = await client.post(path, json=body)
            assert_refused(reply, 503, "UNAVAILABLE", retryable=True)
            assert reply.headers["retry-after"] == "1"
            assert "secret" not in reply.text
    await cut_off.close()


async def test_a_turn_is_accepted_while_redis_is_away(
    postgres: TestPostgres, world: World, turn: dict[str, Any]
) -> None:
    tenant = await world.tenant()
    silent = build(postgres, broker_of("redis://127.0.0.1:9/0", "silent"), settings=ApiSettings())
    async with silent.client({"authorization": f"Bearer {tenant.token}"}) as client:
        assert (await client.post(TURNS, json=turn)).status_code == 201
        assert (await client.post("/api/v1/recall/jobs", json={"query": "Lisbon"})).status_code == 202
    assert await silent.notifier.find_fault() == "ConnectionError"
    await silent.close()


@pytest.mark.law("L7")
async def test_an_accident_tells_its_kind_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    async def accident(*_: Any) -> None:
        raise RuntimeError("the distinctive content zq81")

    transport = httpx.ASGITransport(CallMiddleware(accident, ApiSettings(), FairQueue(FairnessSettings())))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        error = assert_refused(await client.get("/"), 500, "INTERNAL")
    seen = capsys.readouterr()
    assert "zq81" not in orjson.dumps(error).decode() + seen.out + seen.err
    assert "RuntimeError" in seen.out + seen.err


@pytest.mark.parametrize(
    "found, status, word",
    [
        (Readiness.of(), 200, "ready"),
        (Readiness.of(degraded=["broker: does not answer"]), 200, "degraded"),
        (Readiness.of(failing={"database": "does not answer"}), 503, "failing"),
    ],
)
async def test_readiness_says_what_is_wrong(world: World, found: Readiness, status: int, word: str) -> None:
    world.health.found = found
    async with world.client() as client:
        reply = await client.get("/health/ready")
    world.health.found = Readiness.of()
    assert (reply.status_code, reply.json()["status"]) == (status, word)
    assert reply.json()["failing"] == dict(found.failing)
    assert reply.json()["reasons"] == list(found.reasons)


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/metrics", "/docs", "/openapi.json"])
async def test_what_operators_ask_needs_no_key(world: World, path: str) -> None:
    async with world.client() as client:
        assert (await client.get(path)).status_code == 200


def below(kind: type[StoreError]) -> Iterator[type[StoreError]]:
    for one in kind.__subclasses__():
        yield one
        yield from below(one)


def test_every_error_of_the_store_has_a_code_on_the_wire() -> None:
    for module in pkgutil.walk_packages(store.__path__, "store."):
        if not module.name.startswith("store.migrations"):
            importlib.import_module(module.name)
    kinds = set(below(StoreError))
    assert {InvalidEvent, VersionGap, MissingParent, RestoredElsewhere, ErasedMeanwhileError} <= kinds
    # A bare instance: how one is made differs, what it is on the wire depends on its class alone.
    assert [kind.__name__ for kind in kinds if error_to_wire(kind.__new__(kind)) is INTERNAL] == []


@each_row(
    "error, status, code",
    [
        (InvalidEvent("an event is JSON"), 422, "INVALID_EVENT"),
        (VersionGap("AgentMemoryUnit", 2, 4), 409, "VERSION_CONFLICT"),
        (MissingParent("AgentMemoryBank"), 409, "PARENT_MISSING"),
        (RestoredElsewhere("run `afterturn doctor`"), 409, "RESTORED_ELSEWHERE"),
    ],
)
def test_what_the_log_refuses_is_told_as_such(error: StoreError, status: int, code: str) -> None:
    reply = error_response(error, "r-1")
    told = orjson.loads(reply.body)["error"]
    assert (reply.status_code, told["code"], told["message"], told["retryable"]) == (status, code, str(error), False)
    if isinstance(error, VersionGap):
        assert told["details"] == {"aggregate_type": "AgentMemoryUnit", "expected": 2, "actual": 4}


async def test_the_description_names_every_call_of_the_contract(world: World) -> None:
    async with world.client() as client:
        described = (await client.get("/openapi.json")).json()
    calls = {f"{method.upper()} {path}" for path, methods in described["paths"].items() for method in methods}
    assert calls >= {
        "POST /api/v1/turns",
        "POST /api/v1/turns:batch",
        "GET /api/v1/turns/{session_id}/{turn_id}",
        "POST /api/v1/recall",
        "POST /api/v1/recall/jobs",
        "GET /api/v1/recall/jobs/{job_id}",
        "DELETE /api/v1/recall/jobs/{job_id}",
        "GET /api/v1/banks/{bank}/freshness",
        "GET /api/v1/units/{unit_id}",
        "DELETE /api/v1/units/{unit_id}",
        "PATCH /api/v1/units/{unit_id}",
        "PUT /api/v1/units/{unit_id}/pin",
        "DELETE /api/v1/units/{unit_id}/pin",
        "GET /health/live",
        "GET /health/ready",
        "GET /metrics",
        "POST /memories/add",
        "POST /memories/flush",
        "POST /memories/search",
    }
    known = described["components"]["schemas"]
    refs = [part.split('"')[0] for part in orjson.dumps(described).decode().split("#/components/schemas/")[1:]]
    assert {*refs} <= {*known}


async def test_probes_that_succeed_are_logged_for_those_who_look_for_a_fault_alone(world: World) -> None:
    async with world.client() as client:
        with capture_logs() as lines:
            for path in ("/health/live", "/health/ready", "/metrics", "/api/v1/banks"):
                await client.get(path)
            await client.get("/health/live", headers={"host": "evil.example"})
    told = [(line.get("route"), line["log_level"]) for line in lines if line["event"] == "request"]
    assert told == [
        ("/health/live", "debug"),
        ("/health/ready", "debug"),
        ("/metrics", "debug"),
        ("/api/v1/banks", "info"),
        ("unrouted", "info"),
    ]
