"""A call's authority is read again where it writes: its body may come long after its key, or its user, has ended."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextvars import Context
from typing import Any
from uuid import uuid4

import httpx
import pytest

from store import identity
from store.authority import begin_call
from store.erasure import Erasures, ErasureTarget, Kind
from store.tenancy.keys import Grant
from tests.producers.conftest import Tenant, World

Json = dict[str, Any]
WORDS = "Zq41 lives in the lighthouse"


async def send_late(
    http: httpx.AsyncClient, path: str, body: Json, meanwhile: Callable[[], Coroutine[Any, Any, object]]
) -> httpx.Response:
    """Send half of a body, do something once the service waits for the rest, and send that."""
    raw = json.dumps(body).encode()

    async def pieces() -> AsyncIterator[bytes]:
        yield raw[:9]
        # The first piece was read, so the key is known by now. What happens meanwhile is no part of the call.
        await asyncio.create_task(meanwhile(), context=Context())
        yield raw[9:]

    headers = {"content-type": "application/json", "accept": "application/json"}
    return await http.post(path, content=pieces(), headers=headers)


def turn(**more: Any) -> Json:
    said = [{"role": "user", "content": WORDS}]
    return {"bank": "b", "session_id": "s", "turn_id": "1", "messages": said, **more}


def call_tool(name: str, **arguments: Any) -> Json:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


ITEM = {"type": "message", "role": "assistant", "content": WORDS}
#: Every kind of call that writes words: its path and its body.
WRITES: dict[str, tuple[str, Json]] = {
    "turn": ("/api/v1/turns", turn()),
    "turns": ("/api/v1/turns:batch", {"turns": [turn(), turn(turn_id="2")]}),
    "items": ("/api/v1/turns/after", {"project": "b", "session_id": "s", "turn_id": "1", "output_items": [ITEM]}),
    "document": ("/api/v1/docs", {"bank": "b", "content": WORDS, "title": "t"}),
    "directive": ("/api/v1/directives", {"bank": "b", "name": "tone", "content": WORDS}),
    "memory": ("/api/v1/memories", {"bank": "b", "content": WORDS}),
    "bank": ("/api/v1/banks", {"bank": "zq41"}),
    "job": ("/api/v1/recall/jobs", {"bank": "b", "query": WORDS}),
    "MCP memory": ("/mcp", call_tool("memory_remember", text=WORDS)),
    "MCP turn": ("/mcp", call_tool("memory_after_turn", turn_id="1", input_items=[ITEM])),
    "gateway": ("/memories/add", {}),
}
KEEPS = """
    select count(*) from afterturn.event_store_t where host_id = :host union all
    select count(*) from afterturn.recall_job_t where host_id = :host"""


async def count_kept(world: World, tenant: Tenant) -> int:
    return sum(row[0] for row in await world.sql(KEEPS, host=identity.host_id(tenant.host)))


async def end_key(world: World, tenant: Tenant, change: str) -> None:
    """Change the key as another process would: this one's cache still holds it."""
    await world.sql(
        f"update afterturn.api_key_t set {change} where host_id = :host", host=identity.host_id(tenant.host)
    )


async def erase_user(world: World, host: str, user: str) -> None:
    tenant = identity.host_id(host)
    erasures = Erasures(world.database, world.clock)
    receipt = await erasures.run(tenant, await erasures.request(tenant, ErasureTarget(Kind.USER, name=user)))
    assert receipt.done


def code_of(reply: httpx.Response) -> str:
    """Return the code of a refusal, of a tool or of one of a batch as well."""
    told = reply.json()
    if "result" in told:
        told = json.loads(told["result"]["content"][0]["text"])
    elif "results" in told:
        told = told["results"][0]
    return str(told.get("error", told)["code"])


@pytest.mark.law("L6")
@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("change", ["revoked_at = now()", "expires_at = now()"])
async def test_what_comes_after_its_key_has_ended_is_not_stored(world: World, name: str, change: str) -> None:
    path, body = WRITES[name]
    if name == "gateway":
        tenant = await world.tenant(gateway_user="ann")
        message = {"sender_id": "ann", "role": "user", "timestamp": 1_760_000_000_000, "content": WORDS}
        body = {"user_id": "ann", "user_key": tenant.token, "session_id": "s", "messages": [message]}
    else:
        tenant = await world.tenant()
    reply = await send_late(tenant.http, path, body, lambda: end_key(world, tenant, change))
    assert code_of(reply) == ("PERMISSION_DENIED" if path == "/mcp" else "UNAUTHENTICATED"), reply.text
    assert await count_kept(world, tenant) == 0


@pytest.mark.law("L11")
@pytest.mark.parametrize("name", ["turn", "turns", "items", "memory", "job", "document", "directive"])
@pytest.mark.parametrize("own", [True, False], ids=["by the user's own key", "by the tenant's key"])
async def test_what_comes_after_its_user_was_erased_is_not_stored(world: World, name: str, *, own: bool) -> None:
    keeper = await world.tenant()
    writer = await world.tenant(keeper.host, user="ann", curate=True) if own else keeper
    before = await keeper.http.post("/api/v1/turns", json=turn(session_id="earlier", user_id="ann"))
    assert before.status_code == 201, before.text
    path, body = WRITES[name]
    if not own:
        body = {**body, "user_id": "ann"}
        if name == "turns":
            body = {"turns": [one | {"user_id": "ann"} for one in WRITES[name][1]["turns"]]}
        if name in {"document", "directive"}:
            body = {**WRITES[name][1], "bank": "~ann/b"}
    reply = await send_late(writer.http, path, body, lambda: erase_user(world, keeper.host, "ann"))
    assert code_of(reply) in ({"UNAUTHENTICATED"} if own else {"ERASED"}), reply.text
    left = await world.sql(
        "select count(*) from afterturn.event_store_t where host_id = :host and data::text like '%lighthouse%'",
        host=identity.host_id(keeper.host),
    )
    assert (left[0][0], await count_jobs(world, keeper)) == (0, 0)
    again = await keeper.http.post("/api/v1/turns", json=turn(user_id="ann"))
    assert again.status_code == 201, "what is said after the erasure is stored"


async def count_jobs(world: World, tenant: Tenant) -> int:
    rows = await world.sql(
        "select count(*) from afterturn.recall_job_t where host_id = :host", host=identity.host_id(tenant.host)
    )
    return int(rows[0][0])


@pytest.mark.law("L11")
@pytest.mark.parametrize("kind", [Kind.SESSION, Kind.BANK])
async def test_what_comes_after_its_session_or_bank_was_erased_does_not_bring_it_back(world: World, kind: Kind) -> None:
    tenant = await world.tenant()
    host = identity.host_id(tenant.host)
    assert (await tenant.http.post("/api/v1/turns", json=turn(turn_id="0"))).status_code == 201

    async def erase() -> None:
        erasures = Erasures(world.database, world.clock)
        target = ErasureTarget(kind, "b", "s" if kind is Kind.SESSION else "")
        assert (await erasures.run(host, await erasures.request(host, target))).done

    reply = await send_late(tenant.http, "/api/v1/turns", turn(), erase)
    assert (reply.status_code, code_of(reply)) == (409, "ERASED")
    assert (await tenant.http.post("/api/v1/turns", json=turn())).status_code == 201


async def test_in_a_batch_with_others_only_the_turns_of_the_erased_are_refused(world: World) -> None:
    """Turns that are written in one call are judged each by its own user, and the rest is written."""
    keeper = await world.tenant()
    assert (await keeper.http.post("/api/v1/turns", json=turn(user_id="ann"))).status_code == 201
    body = {"turns": [turn(session_id="x", user_id="ann"), turn(session_id="y", user_id="bo"), turn(session_id="z")]}
    reply = await send_late(keeper.http, "/api/v1/turns:batch", body, lambda: erase_user(world, keeper.host, "ann"))
    told = reply.json()["results"]
    assert [one.get("error", {}).get("code") for one in told] == ["ERASED", None, None], told


async def test_a_call_may_write_again_what_it_erased_itself(world: World) -> None:
    """A namespace whose deletion was cut off is deleted to its end, and made anew, in one call."""
    tenant = await world.tenant()
    host = identity.host_id(tenant.host)
    begin_call(Grant(uuid4(), host, None, write=True).since(world.clock()))
    erasures = Erasures(world.database, world.clock)
    await world.memory.create_bank(Grant(uuid4(), host, None, write=True), {"bank": "b"})
    await erasures.run(host, await erasures.request(host, ErasureTarget(Kind.BANK, "b")))
    made = await world.memory.create_bank(Grant(uuid4(), host, None, write=True), {"bank": "b"})
    assert made.created
