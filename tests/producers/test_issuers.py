"""Tokens of an issuer open the HTTP API and /mcp for its users and agents, in the tenant of the settings."""

import base64
import hmac
import json
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import jwt
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from starlette.responses import Response

from producers import issuers
from producers.http.routes.mcp import WELL_KNOWN
from producers.issuers import SigningKeys, TokenIssuers, create_key_client
from producers.mcp.settings import IssuerSettings, McpSettings
from producers.settings import ApiSettings
from store import identity
from store.erasure import Erasures, ErasureTarget, Kind
from tests.client.loopback import Loopback, loopback
from tests.patience import until
from tests.producers.conftest import World, broker_of, build
from tests.servers import TestPostgres, TestValkey
from tests.tables import each_row

ISSUER, RESOURCE = "https://login.example", "https://memory.example/mcp"
CHALLENGE = f'resource_metadata="https://memory.example{WELL_KNOWN}/mcp"'
SCOPES = "memory:read memory:write"
TENANT = "tenant of the issuer"
CLAIMED = "tenant that a token claims"


def new_key() -> EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def write_keys(file: Path, **keys: EllipticCurvePrivateKey) -> None:
    """Write the public halves, as an issuer shows them."""
    told = [
        {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key())), "kid": name, "use": "sig", "alg": "ES256"}
        for name, key in keys.items()
    ]
    file.write_text(json.dumps({"keys": told}))


def sign(key: Any, *, kid: str | None = "a", alg: str = "ES256", **claims: Any) -> str:
    usual = {"iss": ISSUER, "sub": "ann", "aud": RESOURCE, "exp": int(time.time()) + 600, "scope": SCOPES}
    told = {name: value for name, value in {**usual, **claims}.items() if value is not None}
    return jwt.encode(told, key, algorithm=alg, headers=None if kid is None else {"kid": kid})


class Issued:
    """An API that knows one issuer, whose key signs."""

    def __init__(self, world: World, key: EllipticCurvePrivateKey, file: Path) -> None:
        self.world, self.key, self.file = world, key, file

    async def call(self, token: str, tool: str = "memory_search", **arguments: Any) -> httpx.Response:
        asked = {"name": tool, "arguments": arguments or {"query": "x"}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked}
        headers = {"authorization": f"Bearer {token}", "accept": "application/json"}
        async with self.world.client(headers) as client:
            return await client.post("/mcp", json=body)


@pytest_asyncio.fixture(loop_scope="session")
async def issued(postgres: TestPostgres, valkey: TestValkey, tmp_path: Path) -> AsyncIterator[Issued]:
    key, file = new_key(), tmp_path / "jwks.json"
    write_keys(file, a=key)
    issuer = IssuerSettings(issuer=ISSUER, tenant=TENANT, jwks=str(file))
    settings = ApiSettings(mcp=McpSettings(resource=RESOURCE, issuers=(issuer,)))
    async with httpx.AsyncClient() as http:
        world = build(
            postgres, broker_of(valkey.url, "issued"), settings=settings,
            issuers=lambda keys: TokenIssuers(keys, settings.mcp, http),
        )  # fmt: skip
        yield Issued(world, key, file)
        await world.close()


def result_of(reply: httpx.Response) -> dict[str, Any]:
    assert reply.status_code == 200, reply.text
    result: dict[str, Any] = reply.json()["result"]
    return result


@pytest.mark.law("L6")
async def test_a_token_speaks_for_its_user_in_the_tenant_of_the_settings(issued: Issued) -> None:
    ann = sign(issued.key, host=CLAIMED, tenant=CLAIMED, host_id=CLAIMED)
    item = {"type": "message", "role": "user", "content": "The key is under the mat"}
    kept = result_of(await issued.call(ann, "memory_after_turn", turn_id="1", input_items=[item]))
    assert not kept.get("isError"), kept
    found = result_of(await issued.call(ann, query="key"))["structuredContent"]["results"]
    assert [one["text"] for one in found] == ["The key is under the mat"]
    for other in (sign(issued.key, sub="ben"), (await issued.world.tenant(TENANT, user="ben")).token):
        assert result_of(await issued.call(other, query="key"))["structuredContent"]["results"] == []
    same = await issued.world.tenant(TENANT, user="ann")
    assert len(result_of(await issued.call(same.token, query="key"))["structuredContent"]["results"]) == 1
    rows = await issued.world.sql(
        "select distinct name from afterturn.host_t where host_id in (:t, :o)",
        t=identity.host_id(TENANT), o=identity.host_id(CLAIMED),
    )  # fmt: skip
    assert [row[0] for row in rows] == [TENANT]


async def test_scopes_say_what_a_token_may_do(issued: Issued) -> None:
    reader = sign(issued.key, scope=["memory:read"])
    refused = result_of(await issued.call(reader, "memory_remember", text="x"))
    assert json.loads(refused["content"][0]["text"])["code"] == "PERMISSION_DENIED"
    assert not result_of(await issued.call(reader)).get("isError")
    for scope in (None, "", "memory:write", 7, [7], {"memory:read": 1}):
        reply = await issued.call(sign(issued.key, scope=scope))
        assert reply.status_code == 403, scope
        challenge = f'Bearer error="insufficient_scope", scope="memory:read", {CHALLENGE}'
        assert reply.headers["www-authenticate"] == challenge


def sign_with_secret(token: str, secret: bytes) -> str:
    """Return a token signed with what everybody knows."""
    said = unsigned(token, {"alg": "HS256", "kid": "a"}).rstrip(".")
    return f"{said}.{encode(hmac.digest(secret, said.encode(), 'sha256'))}"


def encode(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode().rstrip("=")


def unsigned(token: str, head: dict[str, Any]) -> str:
    """Return a token with another head and no signature."""
    return f"{encode(json.dumps(head).encode())}.{token.split('.')[1]}."


async def test_what_is_no_token_of_the_issuer_for_here_and_now_opens_nothing(issued: Issued) -> None:
    key, now, good = issued.key, int(time.time()), sign(issued.key)
    wrong = {
        "expired": sign(key, exp=now - 60),
        "for ever": sign(key, exp=None),
        "not yet": sign(key, nbf=now + 600),
        "for others": sign(key, aud="https://other.example/mcp"),
        "for nobody": sign(key, aud=None),
        "of others": sign(key, iss="https://evil.example"),
        "of nobody": sign(key, iss=None),
        "of no user": sign(key, sub=None),
        "of a user without a name": sign(key, sub=""),
        "of a user with too long a name": sign(key, sub="x" * 257),
        "of a user who is a number": jwt.encode(
            {"iss": ISSUER, "sub": 7, "aud": RESOURCE, "exp": now + 9}, key, "ES256"
        ),
        "signed by others": sign(new_key()),
        "with an unknown key": sign(new_key(), kid="evil"),
        "with the public key as a secret": sign_with_secret(good, issued.file.read_bytes()),
        "unsigned": unsigned(good, {"alg": "none", "typ": "JWT"}),
        "unsigned, of the key": unsigned(good, {"alg": "none", "kid": "a"}),
        "cut": good[:-9],
        "too long": good + "x" * issuers.LONGEST_TOKEN,
        "three words": "a.b.c",
        "no words": "..",
        "a deep one": base64.urlsafe_b64encode(b"[" * 2000).decode() + ".x.y",
    }
    for name, token in wrong.items():
        reply = await issued.call(token)
        assert reply.status_code == 401, name
        assert reply.headers["www-authenticate"] == f'Bearer error="invalid_token", {CHALLENGE}', name
    assert (await issued.call(good)).status_code == 200
    async with issued.world.client({"authorization": f"Bearer {good}"}) as client:
        assert (await client.post("/api/v1/recall", json={"query": "x"})).status_code == 200


async def test_a_new_key_is_found_and_an_old_one_ends(issued: Issued, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuers, "AGAIN_S", 0.0)
    assert (await issued.call(sign(issued.key))).status_code == 200
    newer = new_key()
    write_keys(issued.file, a=issued.key, b=newer)
    assert (await issued.call(sign(newer, kid="b"))).status_code == 200
    assert (await issued.call(sign(newer, kid=None))).status_code == 401  # which of them?
    write_keys(issued.file, b=newer)
    monkeypatch.setattr(issuers, "KEPT_S", 0.0)
    assert (await issued.call(sign(issued.key))).status_code == 401
    assert (await issued.call(sign(newer, kid=None))).status_code == 200
    issued.file.write_text("{")
    assert (await issued.call(sign(newer, kid="b"))).status_code == 200  # what was read before stays


async def test_clients_are_told_where_to_get_a_token(issued: Issued) -> None:
    async with issued.world.client() as client:
        refused = await client.post("/mcp", json={})
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, f"Bearer {CHALLENGE}")
        for path in (WELL_KNOWN, f"{WELL_KNOWN}/mcp"):
            assert (await client.get(path)).json() == {
                "resource": RESOURCE,
                "authorization_servers": [ISSUER],
                "scopes_supported": ["memory:read", "memory:write"],
                "bearer_methods_supported": ["header"],
                "resource_name": "Afterturn",
            }


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    with loopback() as running:
        yield running


@pytest.mark.parametrize("jwks", ["http://127.0.0.1:9/jwks", "http://localhost/jwks", "HTTPS://login.example/jwks"])
def test_keys_may_come_over_tls_or_from_this_machine(jwks: str) -> None:
    assert IssuerSettings(issuer=ISSUER, tenant="t", jwks=jwks).jwks == jwks


async def test_keys_of_this_machine_pass_no_proxy(server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    good = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(new_key().public_key()))
    server.answer = lambda _seen: Response(json.dumps({"keys": [{**good, "kid": "a"}]}))
    async with create_key_client() as http:
        assert await SigningKeys(f"{server.url}/jwks", http).find("a") is not None


async def test_keys_come_from_a_url_and_what_is_none_is_passed_over(server: Loopback) -> None:
    good = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(new_key().public_key()))
    secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "s"}
    async with httpx.AsyncClient() as http:
        for body, status, found in (
            (json.dumps({"keys": [{**good, "kid": "a"}, secret]}), 200, True),
            (json.dumps({"keys": [{**good, "kid": "a"}]}), 500, False),
            (json.dumps({"keys": "x"}), 200, False),
            ("[]", 200, False),
            ("x" * (issuers.LONGEST_JWKS + 1), 200, False),
        ):
            server.answer = lambda _seen, b=body, s=status: Response(b, s)  # type: ignore[misc]
            keys = SigningKeys(f"{server.url}/jwks".replace("http", "HTTP", 1), http)
            assert (await keys.find("a") is not None) is found, body[:40]
            assert await keys.find("s") is None


@each_row(
    "given",
    [
        {"issuer": "login.example"},
        {"jwks": "http://login.example/jwks"},
        {"jwks": "HTTP://login.example/jwks"},
        {"algorithms": ["HS256"]},
        {"algorithms": ["none"]},
        {"algorithms": []},
    ],
)
def test_settings_that_would_let_others_make_tokens_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        IssuerSettings.model_validate({"issuer": ISSUER, "tenant": "t", "jwks": "https://login.example/jwks", **given})


@pytest.mark.law("L11")
async def test_a_token_does_not_outlive_its_users_erasure(issued: Issued) -> None:
    world, tenant = issued.world, identity.host_id(TENANT)
    item = {"type": "message", "role": "user", "content": "The key is under the mat"}
    said = {"turn_id": str(uuid4()), "input_items": [item]}
    old, silent = sign(issued.key, iat=int(time.time())), sign(issued.key)
    for token in (old, silent):
        assert not result_of(await issued.call(token, "memory_after_turn", **said)).get("isError")
    erasures = Erasures(world.database, world.clock)
    await erasures.run(tenant, await erasures.request(tenant, ErasureTarget(Kind.USER, name="ann")))
    late = await issued.call(old, "memory_after_turn", **{**said, "turn_id": "late"})
    # For as long as an answer of before is cached, the database refuses what the token writes.
    assert late.status_code == 401 or json.loads(result_of(late)["content"][0]["text"])["code"] == "TURN_CONFLICT"

    async def is_refused(token: str) -> bool:
        return (await issued.call(token)).status_code == 401

    for token in (old, silent, sign(issued.key, iat=True), sign(issued.key, iat="soon")):
        await until(partial(is_refused, token), "a token of before the erasure opens nothing")
    assert not result_of(await issued.call(sign(issued.key, sub="ben"))).get("isError"), "of another user"
    new = sign(issued.key, iat=int(time.time()) + 2)
    assert not result_of(await issued.call(new, "memory_after_turn", **{**said, "turn_id": "of who came back"})).get(
        "isError"
    ), "of who came back"


@pytest.mark.law("L6")
async def test_two_issuers_with_one_subject_are_two_users(
    postgres: TestPostgres, valkey: TestValkey, tmp_path: Path
) -> None:
    keys, told = [new_key(), new_key()], list[IssuerSettings]()
    for n, (key, prefix) in enumerate(zip(keys, ("", "partner:"), strict=True)):
        write_keys(tmp_path / f"{n}.json", a=key)
        place = {"issuer": f"{ISSUER}/{n}", "tenant": TENANT, "jwks": str(tmp_path / f"{n}.json")}
        told.append(IssuerSettings(**place, user_prefix=prefix))
    settings = ApiSettings(mcp=McpSettings(resource=RESOURCE, issuers=tuple(told)))
    async with httpx.AsyncClient() as http:
        world = build(
            postgres, broker_of(valkey.url, "issued"), settings=settings,
            issuers=lambda known: TokenIssuers(known, settings.mcp, http),
        )  # fmt: skip
        first, second = (Issued(world, key, tmp_path) for key in keys)
        ours, theirs = (sign(key, iss=one.issuer, sub="cleo") for key, one in zip(keys, told, strict=True))
        item = {"type": "message", "role": "user", "content": "The zq41 is under the mat"}
        kept = await first.call(ours, "memory_after_turn", turn_id=str(uuid4()), input_items=[item])
        assert not result_of(kept).get("isError")
        assert len(result_of(await first.call(ours, query="zq41"))["structuredContent"]["results"]) == 1
        assert result_of(await second.call(theirs, query="zq41"))["structuredContent"]["results"] == []
        posing = sign(keys[0], iss=told[0].issuer, sub="partner:cleo")
        assert (await first.call(posing)).status_code == 401, "a subject of one issuer names no user of the other"
        await world.close()


def test_issuers_of_one_tenant_must_name_their_users_apart() -> None:
    def issuer(n: int, **more: str) -> IssuerSettings:
        return IssuerSettings(issuer=f"{ISSUER}/{n}", tenant=more.pop("tenant", TENANT), jwks="keys.json", **more)

    for two in ((issuer(1), issuer(2)), (issuer(1, user_prefix="a"), issuer(2, user_prefix="a"))):
        with pytest.raises(ValueError, match="user_prefix"):
            McpSettings(resource=RESOURCE, issuers=two)
    assert McpSettings(resource=RESOURCE, issuers=(issuer(1), issuer(2, tenant="another")))


async def test_after_an_outage_of_the_issuer_tokens_without_a_key_id_open_within_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, clock = tmp_path / "jwks.json", [1000.0]
    monkeypatch.setattr("producers.issuers.time.monotonic", lambda: clock[0])
    async with create_key_client() as http:
        keys = SigningKeys(str(file), http)
        for key_id in (None, "a"):
            assert await keys.find(key_id) is None, "the file is not there yet"
        write_keys(file, a=new_key())
        clock[0] += issuers.AFTER_FAILURE_S
        assert await keys.find(None) is not None
        assert issuers.AFTER_FAILURE_S <= 5
        file.unlink()
        clock[0] += issuers.KEPT_S
        assert await keys.find(None) is not None, "the keys read before stay"


PLATFORM, ENVIRONMENT, SERVICE = "01964b05-552a-7c4b-9184-6857e7f3dc5f", "staging", "com.example.agent"
AGENT = {"sub": "client-1", "host": PLATFORM, "env": ENVIRONMENT, "sid": SERVICE, "agentDefId": "planner"}


@pytest_asyncio.fixture(loop_scope="session")
async def served(postgres: TestPostgres, valkey: TestValkey, tmp_path: Path) -> AsyncIterator[Issued]:
    """A deployment of a platform: its issuer's host, services and environment are set."""
    key, file = new_key(), tmp_path / "jwks.json"
    write_keys(file, a=key)
    issuer = IssuerSettings(issuer=ISSUER, tenant=TENANT, jwks=str(file), host=PLATFORM, services=(SERVICE,))
    settings = ApiSettings(mcp=McpSettings(resource=RESOURCE, issuers=(issuer,)))
    async with httpx.AsyncClient() as http:
        world = build(
            postgres, broker_of(valkey.url, "served"), settings=settings,
            issuers=lambda keys: TokenIssuers(keys, settings.mcp, http, ENVIRONMENT),
        )  # fmt: skip
        yield Issued(world, key, file)
        await world.close()


async def ask_everywhere(issued: Issued, token: str) -> dict[str, int]:
    """Return the status of one call to each interface that takes tokens."""
    async with issued.world.client({"authorization": f"Bearer {token}", "accept": "application/json"}) as client:
        return {
            "/mcp": (await issued.call(token)).status_code,
            "recall": (await client.post("/api/v1/recall", json={"query": "x"})).status_code,
            "turns": (await client.post("/api/v1/turns", json={"session_id": "s"})).status_code,
            "banks": (await client.get("/api/v1/banks")).status_code,
            "commands": (await client.post("/api/v1/commands", json={})).status_code,
            "portal": (await client.post("/portal/command", json={})).status_code,
        }


@pytest.mark.law("L6")
async def test_a_token_of_a_service_is_its_agents_on_every_interface(served: Issued) -> None:
    world = served.world
    good = sign(served.key, **AGENT)
    assert await ask_everywhere(served, good) == {
        "/mcp": 200,
        "recall": 200,
        "turns": 422,
        "banks": 200,
        "commands": 422,
        "portal": 422,
    }
    said = {"session_id": "s", "turn_id": "1", "messages": [{"role": "user", "content": "The zq77 is in the attic"}]}
    async with world.client({"authorization": f"Bearer {good}"}) as client:
        assert (await client.post("/api/v1/turns", json={**said, "bank": "plans77"})).status_code == 201
        for bank in ("plans77", "@planner/plans77"):
            found = (await client.post("/api/v1/recall", json={"query": "zq77", "bank": bank})).json()["results"]
            assert [one["text"] for one in found] == ["The zq77 is in the attic"]
    for other in ({**AGENT, "agentDefId": "cook"}, {"sub": "zoe", "host": PLATFORM}):
        async with world.client({"authorization": f"Bearer {sign(served.key, **other)}"}) as client:
            reply = await client.post("/api/v1/recall", json={"query": "zq77", "bank": "@planner/plans77"})
            assert (reply.status_code, reply.json()["results"]) == (200, [])


@pytest.mark.law("L6")
async def test_a_token_that_is_not_for_this_deployment_opens_no_interface(served: Issued) -> None:
    now = int(time.time())
    wrong: dict[str, dict[str, Any]] = {
        "of another tenant": {**AGENT, "host": CLAIMED},
        "of no tenant": {**AGENT, "host": None},
        "of another environment": {**AGENT, "env": "production"},
        "of no environment": {**AGENT, "env": None},
        "of another service": {**AGENT, "sid": "com.example.other"},
        "of a service in a list": {**AGENT, "sid": [SERVICE]},
        "of no agent": {**AGENT, "agentDefId": None},
        "of an agent without a name": {**AGENT, "agentDefId": ""},
        "of an agent that is a number": {**AGENT, "agentDefId": 7},
        "expired": {**AGENT, "exp": now - 60},
        "for others": {**AGENT, "aud": "https://other.example/mcp"},
        "a user's of another tenant": {"host": CLAIMED},
        "a user's of no tenant": {"host": None},
        "a user's of another environment": {"host": PLATFORM, "env": "production"},
    }
    for name, claims in wrong.items():
        seen = await ask_everywhere(served, sign(served.key, **claims))
        assert set(seen.values()) == {401}, (name, seen)
    as_secret = sign_with_secret(sign(served.key, **AGENT), served.file.read_bytes())
    assert set((await ask_everywhere(served, as_secret)).values()) == {401}


async def test_a_service_opens_nothing_where_the_settings_do_not_name_the_deployment(issued: Issued) -> None:
    assert set((await ask_everywhere(issued, sign(issued.key, **AGENT))).values()) == {401}
