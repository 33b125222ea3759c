"""/memories/add, flush and search: the other side of the Memory Gateway contract."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from afterturn_client.gateway import GatewayClient, GatewayMessage

from producers.service.bodies import parse_body
from producers.service.gateway_calls import AddBody, shorten_name, shorten_session_name, split_into_turns
from producers.service.redacting import Redactor
from producers.settings import ApiSettings
from store.identity import host_id
from store.ledger.stages import TURN_STAGES
from store.text.redaction import Redaction
from tests.producers.conftest import Tenant, World
from tests.tables import each_row

SAID = [
    {"sender_id": "ana", "role": "user", "timestamp": 1683554160000, "content": "We fly to Lisbon on Friday"},
    {"sender_id": "beaver", "role": "assistant", "timestamp": 1683554160001, "content": "Noted"},
]


@pytest.fixture
async def user(world: World) -> Tenant:
    return await world.tenant(gateway_user="ana")


def added(user: Tenant, **fields: Any) -> dict[str, Any]:
    return {
        "user_id": "ana",
        "user_key": user.token,
        "session_id": "chat:monday",
        "app_id": "default",
        "project_id": "default",
        "messages": SAID,
        **fields,
    }


def asked(user: Tenant, **fields: Any) -> dict[str, Any]:
    return {
        "user_id": "ana",
        "user_key": user.token,
        "conversation_id": "monday",
        "query": "When do we fly to Lisbon?",
        "scope": ["current_chat", "resources"],
        "top_k": 8,
        "app_id": "default",
        "project_id": "default",
        **fields,
    }


async def post(world: World, call: str, body: Any) -> httpx.Response:
    async with world.client() as client:
        return await client.post(f"/memories/{call}", json=body)


async def count(world: World, user: Tenant, table: str, where: str = "true") -> int:
    rows = await world.sql(
        f"select count(*) from afterturn.{table} where host_id = :host and {where}", host=host_id(user.host)
    )
    return int(rows[0][0])


async def test_the_client_of_the_seed_is_understood(world: World, user: Tenant) -> None:
    transport = httpx.ASGITransport(world.app)
    async with GatewayClient("http://127.0.0.1:8300", "ana", user.token, transport=transport) as client:
        await client.add("monday", [GatewayMessage("ana", "user", 1683554160000, "We fly to Lisbon on Friday")])
        await client.flush("monday")
        hits = await client.search("monday", "When do we fly to Lisbon?", ["current_chat"], 8)
    assert [(hit.text, hit.session_id, hit.source_scope) for hit in hits] == [
        ("We fly to Lisbon on Friday", "chat:monday", "current_chat")
    ]


async def test_each_message_is_a_turn_that_passes_every_stage_but_the_gateway(world: World, user: Tenant) -> None:
    reply = await post(world, "add", added(user))
    assert reply.json() == {
        "request_id": reply.headers["x-request-id"],
        "data": {"message_count": 2, "status": "accumulated"},
    }
    assert await count(world, user, "turn_t") == 2
    assert await count(world, user, "ledger_t", "stage = 'gateway'") == 0
    assert await count(world, user, "ledger_t", "status = 'pending'") == 2 * (len(TURN_STAGES) - 1)


@pytest.mark.law("L2")
async def test_the_same_message_twice_is_one_message(world: World, user: Tenant) -> None:
    bodies = [added(user), added(user), added(user, messages=[SAID[0], SAID[0]])]
    replies = await asyncio.gather(*(post(world, "add", body) for body in bodies * 3))
    assert {reply.status_code for reply in replies} == {200}
    assert await count(world, user, "agent_memory_unit_t") == 2


@pytest.mark.parametrize(
    "fields",
    [{"session_id": "chat:b"}, {"app_id": "x"}, {"project_id": "x"}, {"messages": [{**SAID[0], "timestamp": 1}]}],
)
async def test_what_differs_in_place_or_time_is_another_message(
    world: World, user: Tenant, fields: dict[str, Any]
) -> None:
    await post(world, "add", added(user, messages=SAID[:1]))
    await post(world, "add", added(user, **{"messages": SAID[:1], **fields}))
    assert await count(world, user, "agent_memory_unit_t") == 2


@pytest.mark.law("L6")
async def test_every_wrong_part_of_the_credentials_is_refused_alike(world: World, user: Tenant) -> None:
    ana = await world.tenant()
    other = await world.tenant(gateway_user="bob")
    wrong: list[dict[str, Any]] = [
        {"user_key": "uk_wrong"},
        {"user_key": ""},
        {"user_key": None},
        {"user_key": 7},
        {"user_key": "\ud800"},
        {"user_id": "bob"},
        {"user_id": ""},
        {"user_id": None},
        {"user_id": "an\u0430"},
        {"user_key": other.token},
        {"user_key": ana.token},
        {"user_key": user.token + "x"},
    ]
    answers = set()
    for call, body in (("add", added(user)), ("flush", added(user)), ("search", asked(user))):
        for fields in wrong:
            content = json.dumps({**body, **fields})
            async with world.client() as client:
                reply = await client.post(f"/memories/{call}", content=content)
            answers.add((reply.status_code, str(reply.json()["error"])))
    assert len(answers) == 1
    assert answers.pop()[0] == 401
    assert await count(world, user, "turn_t") == 0


@pytest.mark.law("L6")
async def test_users_of_one_host_do_not_see_each_others_memory(world: World, user: Tenant) -> None:
    bob = await world.tenant(user.host, gateway_user="bob")
    await post(world, "add", added(user))
    for fields in ({}, {"scope": ["all_user_memory"]}):
        found = await post(world, "search", asked(bob, user_id="bob", **fields))
        assert found.json() == {"results": []}


async def test_the_scope_decides_where_is_looked(world: World, user: Tenant) -> None:
    await post(world, "add", added(user))
    elsewhere = await post(world, "search", asked(user, conversation_id="tuesday"))
    assert elsewhere.json() == {"results": []}
    anywhere = await post(world, "search", asked(user, conversation_id="tuesday", scope=["all_user_memory"]))
    assert [hit["source_scope"] for hit in anywhere.json()["results"]] == ["all_user_memory"] * 2
    assert set(anywhere.json()["results"][0]) == {"id", "session_id", "text", "score", "source_scope", "resource_uri"}
    assert (await post(world, "search", asked(user, scope=["resources"]))).json() == {"results": []}
    assert len((await post(world, "search", asked(user, top_k=1))).json()["results"]) == 1


async def test_a_hosts_own_key_finds_the_bank_by_its_name(world: World, user: Tenant) -> None:
    await post(world, "add", added(user, app_id="a:b"))
    owner = await world.tenant(user.host)
    answer = await owner.http.post("/api/v1/recall", json={"query": "Lisbon", "bank": "gateway:a%3Ab:default:ana"})
    assert answer.json()["results"][0]["session_id"] == "chat:monday"
    assert (await owner.http.post("/api/v1/recall", json={"query": "Lisbon"})).json()["results"] == []


@pytest.mark.law("L8")
async def test_recalled_text_is_not_remembered_again(world: World, user: Tenant) -> None:
    await post(world, "add", added(user))
    owner = await world.tenant(user.host)
    answer = await owner.http.post("/api/v1/recall", json={"query": "Lisbon", "bank": "gateway:default:default:ana"})
    echo = {**SAID[0], "timestamp": 5, "content": answer.json()["reference"]["content"]}
    assert (await post(world, "add", added(user, messages=[echo]))).json()["data"]["message_count"] == 0
    assert await count(world, user, "agent_memory_unit_t") == 2


@each_row(
    "fields",
    [
        {"messages": []},
        {"messages": [{}]},
        {"messages": [{**SAID[0], "role": "developer"}]},
        {"messages": [{**SAID[0], "role": "system"}]},
        {"messages": [SAID[0], {**SAID[1], "role": "system"}]},
        {"messages": [{**SAID[0], "role": "tool"}]},
        {"messages": [SAID[1], SAID[0]]},
        {"messages": [*SAID, {**SAID[0], "timestamp": 1683554159999}]},
        {"messages": [{**SAID[0], "timestamp": "2026-01-01T00:00:00Z"}]},
        {"messages": [{**SAID[0], "timestamp": 1683554160000.0}]},
        {"messages": [{**SAID[0], "timestamp": True}]},
        {"messages": [{**SAID[0], "timestamp": 10**30}]},
        {"messages": [{**SAID[0], "timestamp": 0}]},
        {"messages": [{**SAID[0], "timestamp": -1}]},
        {"messages": [{**SAID[0], "content": "\x00"}]},
        {"messages": [{**SAID[0], "sender_id": ""}]},
        {"session_id": ""},
        {"session_id": None},
        {"app_id": ""},
        {"project_id": 5},
    ],
    ids=str,
)
async def test_a_wrong_message_is_refused_and_those_beside_it_too(
    world: World, user: Tenant, fields: dict[str, Any]
) -> None:
    reply = await post(world, "add", added(user, **fields))
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "INVALID_ARGUMENT")
    assert await count(world, user, "turn_t") == 0


async def test_a_refusal_says_which_message_and_repeats_none(world: World, user: Tenant) -> None:
    [problem] = (await post(world, "add", added(user, messages=SAID[::-1]))).json()["error"]["details"]["problems"]
    assert problem["field"] == "messages"
    assert problem["problem"].startswith("the timestamp of message 1 ")


async def test_messages_of_one_moment_and_those_of_tools_are_taken(world: World, user: Tenant) -> None:
    result = {**SAID[0], "role": "tool", "tool_call_id": "call_1", "content": "Flight LX 1"}
    reply = await post(world, "add", added(user, messages=[SAID[0], result, SAID[1]]))
    assert reply.json()["data"]["message_count"] == 3


@pytest.mark.parametrize(
    "fields",
    [{"query": ""}, {"query": " "}, {"scope": []}, {"scope": ["web"]}, {"top_k": 0}, {"top_k": 101}, {"top_k": True}],
    ids=str,
)
async def test_a_wrong_question_is_refused(world: World, user: Tenant, fields: dict[str, Any]) -> None:
    assert (await post(world, "search", asked(user, **fields))).status_code == 422


async def test_a_question_may_be_as_long_as_a_prompt(world: World, user: Tenant) -> None:
    await post(world, "add", added(user))
    reply = await post(
        world, "search", asked(user, query="When do we fly to Lisbon? Here is the log:\n" + "x " * 50_000)
    )
    assert reply.json()["results"][0]["text"] == SAID[0]["content"]


@pytest.mark.parametrize(
    "session", ["chat:" + "x" * 200, "chat:a/b", "chat:..\\", ".", "chat:\n", "chat:ü" * 40, "\u202e"]
)
async def test_any_session_of_a_client_has_a_name_here(world: World, user: Tenant, session: str) -> None:
    reply = await post(world, "add", added(user, session_id=session))
    assert reply.status_code == 200
    name = shorten_session_name(session)
    assert len(name.encode()) <= 128
    owner = await world.tenant(user.host)
    turn = split_into_turns(
        parse_body(AddBody, added(user, session_id=session)), ApiSettings(), Redactor(Redaction.KEYS)
    )[0]
    status = await owner.http.get(
        f"/api/v1/turns/{name}/{turn.turn_name}".replace("\n", "%0A"), params={"bank": "gateway:default:default:ana"}
    )
    assert status.status_code == 200


def test_a_long_name_keeps_its_beginning_and_ends_in_a_digest() -> None:
    assert shorten_name("x" * 256, 256) == "x" * 256
    long = shorten_name("ü" * 200, 256)
    head, digest = long.split("~")
    assert (head, len(digest)) == ("ü" * 32, 32)
    assert long != shorten_name("ü" * 201, 256)


def test_no_two_scopes_share_a_bank() -> None:
    parts = [("a:b", "c"), ("a", "b:c"), ("a%3Ab", "c"), ("a%253Ab", "c"), ("a", "b%3Ac")]
    bodies = [
        {"user_id": "u", "user_key": "k", "app_id": a, "project_id": p, "session_id": "s", "messages": SAID}
        for a, p in parts
    ]
    assert len({parse_body(AddBody, body).bank for body in bodies}) == len(parts)
    assert parse_body(AddBody, {**bodies[0], "app_id": "a", "project_id": "p"}).bank == "gateway:a:p:u"
