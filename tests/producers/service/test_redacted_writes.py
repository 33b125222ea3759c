"""L7: the caller's own key and what has the form of a credential are not stored, whichever way they come in."""

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from producers.service.redacting import Redactor
from producers.settings import ApiSettings
from store.text.redaction import Redaction
from tests.producers.conftest import Tenant, World, broker_of, build
from tests.producers.mcp.test_tools import call, client_of
from tests.servers import TestPostgres, TestValkey

#: What has the form of a credential; each is distinctive.
TOKEN = "sk-zq77Abcdefghij0123456789"
URL = "postgres://zq77user:zq77pass@db.internal/app"
PASSWORD = "zq77Hunter2Secret"
FORMS = ("zq77Abcdefghij", "zq77pass", PASSWORD)
TABLES = """
    select format('%I', c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = 'afterturn' and c.relkind in ('r', 'p') and not c.relispartition"""


def chat(secret: str) -> list[dict[str, Any]]:
    """Return a conversation with a secret in every kind of text, and in what is no text."""
    arguments = json.dumps({"url": URL, "api_password": PASSWORD, "key": secret})
    return [
        {"role": "user", "content": f"My key is {secret}."},
        {"role": "user", "content": [{"type": "text", "text": f"and {TOKEN}"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "open", "arguments": arguments}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": f"connected to {URL} with {secret}"},
    ]


def items(secret: str) -> dict[str, Any]:
    arguments = json.dumps({"url": URL, "api_password": PASSWORD})
    return {
        "input_items": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": TOKEN}]}],
        "output_items": [
            {"type": "function_call", "call_id": "c", "name": "open", "arguments": arguments},
            {"type": "function_call_output", "call_id": "c", "output": f"opened with {secret}"},
            {"type": "unheard_of", "notes": [{"text": secret}]},
        ],
    }


async def stored(world: World, *secrets: str) -> list[str]:
    """Return the tables in which one of these stands."""
    names = [row.name for row in await world.sql(TABLES)]
    return [
        name
        for name in names
        if (
            await world.sql(
                f"select count(*) as n from afterturn.{name} t where t::text like any(:secrets)",
                secrets=[f"%{secret}%" for secret in secrets],
            )
        )[0].n
    ]


@pytest.mark.law("L7")
async def test_no_secret_of_a_text_is_stored_whichever_way_it_comes_in(world: World, ana: Tenant) -> None:
    key, http = ana.token, ana.http
    turn = {"session_id": "s", "turn_id": "1", "messages": chat(key)}
    assert (await http.post("/api/v1/turns", json=turn)).status_code == 201
    assert (await http.post("/api/v1/turns", json=turn)).json()["duplicate"] is True
    batch = {"turns": [{**turn, "turn_id": "2"}, {**turn, "turn_id": "3"}]}
    assert (await http.post("/api/v1/turns:batch", json=batch)).status_code == 200
    after = {"session_id": "t", "turn_id": "1", **items(key)}
    for _ in range(2):
        assert (await http.post("/api/v1/turns/after", json=after)).status_code == 200
    for path, body in (
        ("docs", {"content": f"{URL} and {key}", "title": TOKEN}),
        ("memories", {"content": f"{URL} and {key}", "title": TOKEN}),
        ("directives", {"name": "access", "content": f"Use {key} and {TOKEN}"}),
    ):
        assert (await http.post(f"/api/v1/{path}", json=body)).status_code == 201
    memory = (await http.post("/api/v1/memories", json={"id": "m", "content": "Use the key"})).json()
    corrected = await http.patch(f"/api/v1/units/{memory['unit_id']}", json={"content": f"Use {key}, {TOKEN}"})
    assert corrected.status_code == 200
    async with client_of(world, ana) as client:
        await call(client, "memory_after_turn", turn_id="4", session_id="u", **items(key))
        await call(client, "memory_remember", text=f"The key is {key} or {TOKEN}")
    gateway = await world.tenant(ana.host, gateway_user="ana")
    said = {"sender_id": "ana", "role": "user", "timestamp": 1_772_443_800_000}
    told = {"user_id": "ana", "user_key": gateway.token, "session_id": "chat:1"}
    content = f"I use {gateway.token} and {TOKEN}"
    added = await gateway.http.post("/memories/add", json={**told, "messages": [{**said, "content": content}]})
    assert added.status_code == 200
    assert await stored(world, key, gateway.token, *FORMS) == []
    await gateway.http.aclose()


@pytest.mark.law("L2")
@pytest.mark.parametrize(
    "path, body",
    [
        ("turns", lambda key: {"session_id": "s", "turn_id": "1", "messages": chat(key)}),
        ("turns/after", lambda key: {"session_id": "s", "turn_id": "1", **items(key)}),
    ],
)
async def test_the_digest_is_of_what_is_kept_and_so_the_same_for_another_key(
    world: World, ana: Tenant, path: str, body: Callable[[str], dict[str, Any]]
) -> None:
    rotated = await world.tenant(ana.host)
    first = await ana.http.post(f"/api/v1/{path}", json=body(ana.token))
    again = await rotated.http.post(f"/api/v1/{path}", json=body(rotated.token))
    assert (first.is_success, again.is_success) == (True, True), again.text
    assert again.json()["position"] == first.json()["position"]
    foreign = await ana.http.post(f"/api/v1/{path}", json=body("no credential"))
    assert (foreign.status_code, foreign.json()["error"]["code"]) == (409, "TURN_CONFLICT")
    await rotated.http.aclose()


async def test_names_tags_and_keys_of_objects_are_searched_as_well(world: World, ana: Tenant) -> None:
    marks = [f"sk-zq{uuid4().hex}" for _ in range(6)]
    messages = [
        {"role": "user", "name": marks[0], "content": "hello"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": marks[1], "arguments": json.dumps({marks[2]: 1})}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "name": marks[1], "content": "done"},
    ]
    turn = {"session_id": "s", "turn_id": "1", "messages": messages, "tags": [marks[3]]}
    assert (await ana.http.post("/api/v1/turns", json=turn)).status_code == 201
    after = {"session_id": "t", "turn_id": "1", "input_items": [{"type": "unheard_of", marks[4]: {"a": [marks[4]]}}]}
    assert (await ana.http.post("/api/v1/turns/after", json=after)).status_code == 200
    laid = await ana.http.post("/api/v1/directives", json={"name": marks[5], "content": "Be kind."})
    assert laid.status_code == 201
    assert await stored(world, *marks) == []


#: Random base64, which only `all` takes for a secret.
BLOB = "Zk9q2Lw7RtY4uPz8XcV1bNm3AsD6fGh5JkQ0eTyU"


@pytest.mark.parametrize(
    "level, gone",
    [(Redaction.OFF, set()), (Redaction.KEYS, {"own", "form"}), (Redaction.ALL, {"own", "form", "blob"})],
)
async def test_the_setting_says_what_is_taken_out_and_of_texts_alone(
    postgres: TestPostgres, valkey: TestValkey, level: Redaction, gone: set[str]
) -> None:
    world = build(postgres, broker_of(valkey.url, f"redact-{uuid4().hex}"), settings=ApiSettings(redact=level))
    tenant = await world.tenant()
    marks = {"own": tenant.token, "form": uuid4().hex, "blob": f"{BLOB}{uuid4().hex[:6].upper()}"}
    told = f"{marks['own']} sk-zq{marks['form']} {marks['blob']}"
    image = {"type": "input_image", "image_url": f"https://host/{told.replace(' ', '/')}"}
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": told}, image]}
    after = {"session_id": "s", "turn_id": "1", "input_items": [{**item, "metadata": {"trace": told}}]}
    assert (await tenant.http.post("/api/v1/turns/after", json=after)).status_code == 200
    before = {"session_id": "s", "turn_id": "2", "current_input": [{"type": "message", "role": "user", "content": "?"}]}
    shown = (await tenant.http.post("/api/v1/turns/before", json=before)).json()["input_items"][0]
    assert (shown["metadata"], shown["content"][1]) == ({"trace": told}, image)
    assert {name for name, mark in marks.items() if mark not in shown["content"][0]["text"]} == gone
    in_units = {name for name, mark in marks.items() if "agent_memory_unit_t" not in await stored(world, mark)}
    assert in_units == gone
    await tenant.http.aclose()
    await world.close()


async def test_what_is_left_of_a_call_is_json_and_what_is_no_text_stays(world: World, ana: Tenant) -> None:
    image = "https://host/zq78.png?api_key=zq78Secret0123456"
    parts = [{"type": "text", "text": f"look: {TOKEN}"}, {"type": "image_url", "image_url": {"url": image}}]
    messages = [*chat(ana.token), {"role": "user", "content": parts}]
    turn = {"session_id": "s", "turn_id": "1", "messages": messages, "metadata": {"trace": "sk-zq78Abcdefghij0123456"}}
    assert (await ana.http.post("/api/v1/turns", json=turn)).status_code == 201
    before = {"session_id": "s", "turn_id": "2", "current_input": [{"type": "message", "role": "user", "content": "?"}]}
    shown = (await ana.http.post("/api/v1/turns/before", json=before)).json()["input_items"]
    [called] = [item for item in shown if item.get("tool_calls")]
    arguments = json.loads(called["tool_calls"][0]["function"]["arguments"])
    assert set(arguments) == {"url", "api_password", "key"}
    assert all("[REDACTED:" in value for value in arguments.values())
    assert await stored(world, "zq78.png") == ["event_store_t"]
    assert "event_store_t" in await stored(world, "sk-zq78Abcdefghij0123456")


def test_nothing_is_taken_out_where_that_is_set() -> None:
    whole = {"text": f"{TOKEN} own-key-of-mine", "metadata": {"key": TOKEN}}
    assert Redactor(Redaction.OFF, ("own-key-of-mine",)).redact_value(whole) == whole
    told = Redactor(Redaction.KEYS, ("own-key-of-mine",)).redact_value(whole)
    assert told == {"text": "[REDACTED:SK_TOKEN] [REDACTED:OWN_KEY]", "metadata": {"key": TOKEN}}
