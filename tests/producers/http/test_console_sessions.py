"""Sessions of the console over HTTP: a key is shown once, and a page of another origin can do nothing with the rest."""

from contextlib import aclosing
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from producers.http.console_cookie import COOKIE, HEADER, set_cookie
from store.tenancy.console_sessions import ConsoleSessions
from store.tenancy.operator_keys import OperatorKeys
from tests.producers.conftest import Tenant, World
from tests.tables import each_row

SESSION = "/api/v1/console/session"


async def sign_in(world: World, key: str, **headers: str) -> httpx.AsyncClient:
    """Return a browser's client after a sign-in; its cookie is in its jar."""
    client = world.client(headers)
    reply = await client.post(SESSION, json={"key": key})
    assert reply.status_code == 201, reply.text
    client.headers[HEADER] = reply.json()["session"]
    return client


async def test_a_key_becomes_a_session_that_does_what_the_key_does(world: World, turn: dict[str, Any]) -> None:
    tenant = await world.tenant(write=False, user="ana")
    writer = await world.tenant(tenant.host)
    async with (
        aclosing(await sign_in(world, tenant.token)) as reader,
        aclosing(await sign_in(world, writer.token)) as full,
    ):
        assert (await full.post("/api/v1/turns", json=turn)).status_code == 201
        assert (await reader.post("/api/v1/turns", json=turn)).status_code == 403
        assert (await full.get("/api/v1/sessions")).json()["sessions"][0]["session_id"] == "monday"
        who = (await reader.get(SESSION)).json()
        assert (who["tenant"], who["label"], who["user"], who["write"], who["operator"]) == (
            tenant.host,
            "test",
            "ana",
            False,
            False,
        )


@each_row(
    "host,secure", [("127.0.0.1:8300", False), ("localhost:1", False), ("[::1]:1", False), ("memory.example", True)]
)
def test_the_cookie_is_for_this_site_alone_and_read_by_no_script(host: str, *, secure: bool) -> None:
    scope = {"type": "http", "scheme": "http", "path": "/", "query_string": b"", "headers": [(b"host", host.encode())]}
    response = Response()
    set_cookie(Request(scope), response, "half")
    parts = response.headers["set-cookie"].split("; ")
    assert {f"{COOKIE}=half", "HttpOnly", "SameSite=strict", "Path=/api/v1", "Max-Age=43200"} <= set(parts)
    assert ("Secure" in parts) is secure


@pytest.mark.parametrize("half", ["cookie", "header"])
async def test_one_half_of_a_session_opens_nothing(world: World, ana: Tenant, half: str) -> None:
    client = await sign_in(world, ana.token)
    if half == "cookie":
        client.cookies.clear()
    else:
        del client.headers[HEADER]
    for method, path in (("GET", "/api/v1/banks"), ("GET", SESSION), ("DELETE", SESSION), ("POST", "/api/v1/turns")):
        assert (await client.request(method, path)).status_code == 401
    await client.aclose()


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
async def test_a_page_of_another_origin_uses_no_session_and_opens_none(
    world: World, ana: Tenant, site: str, turn: dict[str, Any]
) -> None:
    client = await sign_in(world, ana.token)
    there = {"sec-fetch-site": site}
    assert (await client.post("/api/v1/turns", json=turn, headers=there)).status_code == 401
    assert (await client.get("/api/v1/banks", headers=there)).status_code == 401
    assert (await client.post(SESSION, json={"key": ana.token}, headers=there)).status_code == 403
    assert (await client.get("/api/v1/banks")).status_code == 200
    await client.aclose()


async def test_a_session_ends_with_the_sign_out_and_with_its_key(world: World) -> None:
    tenant = await world.tenant()
    client, other = await sign_in(world, tenant.token), await sign_in(world, tenant.token)
    kept = client.cookies[COOKIE]
    assert (await client.delete(SESSION)).status_code == 204
    client.cookies.set(COOKIE, kept, domain="127.0.0.1", path="/api/v1")
    assert (await client.get("/api/v1/banks")).status_code == 401
    [info] = await world.keys.list(tenant.host)
    await world.keys.revoke(tenant.host, info.key_id)
    world.app.state.console = ConsoleSessions(world.database)  # another process, which believes nothing yet
    assert (await other.get("/api/v1/banks")).status_code == 401
    for one in (client, other):
        await one.aclose()


async def test_a_link_signs_in_once(world: World, ana: Tenant) -> None:
    async with world.client() as client:
        links = "/api/v1/console/links"
        code = (await client.post(links, json={"keys": [ana.token]})).json()["link"]
        assert (await client.post(links, json={"keys": ["at_nothing"]})).status_code == 401
        assert (await client.post(links, json={"keys": []})).status_code == 422
        first = await client.post(SESSION, json={"link": code})
        assert (first.status_code, first.json()["tenant"]) == (201, ana.host)
        assert (await client.post(SESSION, json={"link": code})).status_code == 401


async def test_what_is_no_key_of_the_console_is_refused(world: World) -> None:
    gateway = await world.tenant(gateway_user="ana")
    async with world.client() as client:
        for body, status in (
            ({"key": "at_nothing"}, 401),
            ({"key": gateway.token}, 401),
            ({"link": "cl_nothing"}, 401),
            ({}, 422),
            ({"key": "a", "link": "b"}, 422),
            ({"key": "x" * 300}, 422),
        ):
            reply = await client.post(SESSION, json=body)
            assert reply.status_code == status, reply.text
            assert "set-cookie" not in reply.headers
    await gateway.http.aclose()


@pytest.mark.law("L6")
async def test_a_session_of_an_operator_is_refused_content(world: World) -> None:
    key = await OperatorKeys(world.database).create("on call")
    client = await sign_in(world, key)
    assert (await client.get("/api/v1/operator/status")).status_code == 200
    who = (await client.get(SESSION)).json()
    assert (who["tenant"], who["operator"], who["makes_keys"]) == (None, True, False)
    for path in ("/api/v1/banks", "/api/v1/units", "/api/v1/sessions"):
        reply = await client.get(path)
        assert (reply.status_code, reply.json()["error"]["code"]) == (403, "PERMISSION_DENIED")
    assert (await client.post("/api/v1/recall", json={"query": "who?"})).status_code == 403
    tenant = await world.tenant()
    async with aclosing(await sign_in(world, tenant.token)) as other:
        assert (await other.get("/api/v1/operator/status")).status_code == 403
    for one in (client, tenant.http):
        await one.aclose()


async def test_mcp_and_the_gateway_take_no_session(world: World, ana: Tenant) -> None:
    client = await sign_in(world, ana.token)
    assert (await client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})).status_code == 401
    await client.aclose()


async def test_calls_of_the_console_are_on_record_as_such(world: World, ana: Tenant) -> None:
    client = await sign_in(world, ana.token)
    await client.get("/api/v1/units")
    await ana.http.get("/api/v1/units")
    await world.recorder.flush()
    rows = await world.sql(
        "select door, operation from afterturn.call_audit_t a join afterturn.host_t h using (host_id)"
        " where h.name = :host order by call_id",
        host=ana.host,
    )
    assert [tuple(row) for row in rows] == [
        ("console", f"POST {SESSION}"),
        ("console", "GET /api/v1/units"),
        ("http", "GET /api/v1/units"),
    ]
    await client.aclose()


async def test_the_database_keeps_no_secret_of_a_session(world: World, ana: Tenant) -> None:
    client = await sign_in(world, ana.token)
    halves = (client.cookies[COOKIE], client.headers[HEADER], ana.token)
    found = await world.database.sql("select s::text as row from public.afterturn_console_session s")
    assert found
    assert not [row for row in found for half in halves if half in row.row or half.encode().hex() in row.row]
    await client.aclose()


async def test_a_service_without_the_console_has_neither_page_nor_sessions(world: World, ana: Tenant) -> None:
    client = await sign_in(world, ana.token)
    sessions, world.app.state.console = world.app.state.console, None
    try:
        assert (await client.get("/api/v1/banks")).status_code == 401
        assert (await client.post(SESSION, json={"key": ana.token})).status_code == 403
    finally:
        world.app.state.console = sessions
    await client.aclose()
