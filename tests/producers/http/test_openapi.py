"""Every operation is described as it answers: its promise, who may call it, typed answers and errors, examples."""

import asyncio
import importlib
import json
import pkgutil
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import orjson
import pytest
import pytest_asyncio

from producers.http import openapi, routes
from producers.http.error_responses import INTERNAL, WIRES
from producers.http.openapi import MEANINGS, CallerClass
from producers.http.reference_page import render_reference
from producers.queue.acceptance import Rejection
from store import identity
from store.derived.completion import complete_bank
from store.ledger.workers import WorkerRegistry
from store.tenancy.operator_keys import OperatorKeys
from tests.client.loopback import closed_port
from tests.generations import forget_generations, make_generation_live
from tests.producers.conftest import Tenant, World
from tests.producers.recorded_answers import compare_answers, describe_answers, find_changes, read_record
from tests.producers.schemas import HeldToSchema, find_answer_faults, find_faults
from tests.workers.targets import hand_to

V1 = "/api/v1"
EXAMPLES = Path(openapi.__file__).with_name("examples.json")
#: Answers that have more forms than their example: other counts, stages or results.
VARIED = {"TurnStatus", "RecallJobReply", "ErasureReceipt", "PortalResult"}
NO_ID = "00000000-0000-4000-8000-000000000000"
#: Successes that no single call brings about, each with the reason.
NOT_CALLED = {
    "POST /api/v1/erasures 202": "only where an erasure takes longer than five seconds",
    **{
        f"DELETE /api/v1/{thing} 202": "only where an erasure takes longer than five seconds"
        for thing in ("units/{unit_id}", "docs/{doc_id}", "directives/{directive_id}", "memories/{memory_id}")
    },
}
HOW = "in producers/http: see operation_router.py"
#: What an operation does, the first word of its id.
WORDS = (
    "add build change check compare complete correct count create delete drain flush forget get link list pin prepare "
    "recall restore revoke rotate search set settle switch unpin watch write"
)
VERBS = frozenset(WORDS.split())


@pytest.fixture(scope="module")
def described(world: World) -> dict[str, Any]:
    found: dict[str, Any] = world.app.openapi()
    return found


def operations(described: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, calls in described["paths"].items():
        for method, operation in calls.items():
            yield f"{method.upper()} {path}", operation


def resolve(described: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in answer:
        return answer
    found: dict[str, Any] = described["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    return found


def test_every_operation_says_what_it_promises_and_who_may_call_it(described: dict[str, Any]) -> None:
    for name, operation in operations(described):
        promise, _, access = operation.get("description", "").partition("\n\n**Who may call it:** ")
        assert len(promise) > len("It answers."), f"{name}: say what it promises, {HOW}"
        assert access.rstrip(".") in set(CallerClass), f"{name}: say who may call it, {HOW}"


def test_every_operation_has_an_id_that_names_the_call_of_a_generated_client(described: dict[str, Any]) -> None:
    named = {name: operation["operationId"] for name, operation in operations(described)}
    assert [one for one, times in Counter(named.values()).items() if times > 1] == [], "an id names one operation"
    for name, told in named.items():
        assert re.fullmatch(r"[a-z]+(_[a-z]+)+", told), f"{name}: {told}: name its handler by verb and object"
        verb = told.partition("_")[0]
        assert verb in VERBS, f"{name}: {told}: begin with one of {sorted(VERBS)}"
    assert {told.partition("_")[0] for told in named.values()} == VERBS, "a verb that no operation uses"


def test_every_parameter_says_what_it_means(described: dict[str, Any]) -> None:
    named = [(name, one) for name, operation in operations(described) for one in operation.get("parameters", ())]
    assert {one["in"] for _, one in named} == {"path", "query"}
    for name, one in named:
        told = one.get("description", "")
        assert len(told.split()) > 2, f"{name}: describe {one['name']}, with its unit and limit, {HOW}"
        assert {"type": "null"} not in one["schema"].get("anyOf", ()), f"{name} {one['name']}: no query says null"


def test_every_field_says_what_it_means(described: dict[str, Any]) -> None:
    schemas = described["components"]["schemas"]
    for name in schemas:
        for field_name, schema in schemas[name].get("properties", {}).items():
            assert schema.get("description"), f"{name}.{field_name}: give it a description, with its unit and limit"


def test_a_model_has_a_name_of_its_own(described: dict[str, Any]) -> None:
    for name in described["components"]["schemas"]:
        assert re.fullmatch(r"[A-Za-z]+", name), f"{name}: another model has this name: rename one of them"


def test_everything_that_is_referred_to_is_there(described: dict[str, Any]) -> None:
    named = set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(described)))
    assert named
    for reference in named:
        found: Any = described
        for part in reference.removeprefix("#/").split("/"):
            assert part in found, f"{reference} leads nowhere"
            found = found[part]


def test_every_success_has_a_schema_or_no_body(described: dict[str, Any]) -> None:
    for name, operation in operations(described):
        successes = {status: answer for status, answer in operation["responses"].items() if status.startswith("2")}
        assert successes, f"{name}: declare what it answers, {HOW}"
        for status, answer in successes.items():
            schemas = [content.get("schema") for content in answer.get("content", {}).values()]
            typed = bool(schemas) and all(schemas)
            assert typed != (status == "204"), f"{name} {status}: name the model of its Reply, {HOW}"


def test_every_body_has_an_example_that_fits_its_schema(described: dict[str, Any]) -> None:
    components = described["components"]
    for name, operation in operations(described):
        bodies = {"request": operation.get("requestBody", {}), **operation["responses"]}
        for what, body in bodies.items():
            for content in resolve(described, body).get("content", {}).values():
                assert "example" in content, f"{name} {what}: give its model an example in examples.json"
                faults = list(find_faults(content["schema"], content["example"], components))
                assert not faults, f"{name} {what}: its example does not fit: {faults}"


def test_an_example_is_as_it_is_answered(described: dict[str, Any]) -> None:
    recorded, held = read_record(), set[str]()
    for name, operation in operations(described):
        for status, body in {"request": operation.get("requestBody", {}), **operation["responses"]}.items():
            content = resolve(described, body).get("content", {}).get("application/json", {})
            models = re.findall(r'"#/components/schemas/(\w+)"', json.dumps(content.get("schema", {})))
            held |= set(models)
            if len(models) == 1 and models[0] not in VARIED and f"{name} {status}" in recorded:
                told = describe_answers([orjson.dumps(content["example"])])
                changes = list(find_changes(recorded[f"{name} {status}"], told))
                assert not changes, f"{name} {status}: its example is not as it answers: {changes}"
    assert held >= set(json.loads(EXAMPLES.read_text())), "an example of what no operation takes or answers"


def test_every_error_has_the_one_body_and_codes_with_a_meaning(described: dict[str, Any]) -> None:
    for name, operation in operations(described):
        errors = {status for status, answer in operation["responses"].items() if "$ref" in answer}
        assert errors >= {"403", "413", "429", "500"}, f"{name}: any request may meet these"
        if operation.get("security"):
            assert errors >= {"401", "422", "503"}, f"{name}: any call with a key may meet these"
        if "requestBody" in operation:
            assert errors >= {"400", "408", "422"}, f"{name}: any call with a body may meet these"
        for status in errors:
            told = operation["responses"][status]
            content = resolve(described, told)["content"]["application/json"]
            assert content["schema"] == {"$ref": "#/components/schemas/ErrorBody"}
            assert any(f"`{code}`" in told["description"] for code in MEANINGS), f"{name} {status}: names no code"
    codes = {wire.code for wire in (*WIRES.values(), INTERNAL)}
    assert set(MEANINGS) == codes, "each code of problems.WIRES has a meaning in openapi.MEANINGS, and no other has"


def test_a_field_that_is_not_described_and_a_status_that_is_not_declared_are_found(described: dict[str, Any]) -> None:
    """The judge itself: each of its ways to find a fault finds one."""
    operation = described["paths"][f"{V1}/turns"]["post"]
    whole = b'{"ok":true,"position":1,"duplicate":false}'
    assert list(find_answer_faults(described, operation, "201", whole)) == []
    for status, body, fault in (
        ("201", b'{"ok":true,"position":1}', "duplicate: is missing"),
        ("201", b'{"ok":true,"position":1,"duplicate":false,"more":1}', "more: is not described"),
        ("201", b'{"ok":true,"position":"1","duplicate":false}', "str where integer"),
        ("201", b'{"ok":false,"position":1,"duplicate":false}', "is not True"),
        ("418", b"{}", "not declared"),
        ("404", whole, "error: is missing"),
    ):
        found = list(find_answer_faults(described, operation, status, body))
        assert any(fault in one for one in found), (fault, found)


@dataclass
class Caller:
    """A tenant that calls operations and keeps which statuses they answered; answers are judged as they come."""

    http: httpx.AsyncClient
    held: HeldToSchema
    host: str = ""
    ids: dict[str, str] = field(default_factory=dict)

    async def __call__(self, status: int, method: str, path: str, body: Any = None, **query: Any) -> Any:
        reply = await self.http.request(method, path, json=body, params=query)
        assert reply.status_code == status, f"{method} {path}: {reply.text}"
        return reply.json() if reply.headers.get("content-type") == "application/json" else reply.text


@pytest_asyncio.fixture(loop_scope="session")
async def caller(world: World, ana: Tenant) -> AsyncIterator[Caller]:
    """A caller who may do everything, in a tenant of its own."""
    held = HeldToSchema(world.app)
    headers = {"authorization": f"Bearer {ana.token}"}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(held), base_url="http://127.0.0.1:8300", headers=headers
    ) as client:
        yield Caller(client, held, ana.host)


async def call_commands(world: World, caller: Caller) -> None:
    place = {"bankId": str(UUID(int=7))}
    kept = {"action": "retainAgentMemoryUnit", "data": {**place, "content": "The cello is in the cellar."}}
    unit = (await caller(200, "POST", "/api/v1/commands", kept))["result"]["unitId"]
    entities = [str(UUID(int=n)) for n in (1, 2)]
    for one in entities:
        named = {**place, "entityId": one, "canonicalName": f"Cello {one}"}
        await caller(200, "POST", "/api/v1/commands", {"action": "createAgentMemoryEntity", "data": named})
        said = {**place, "entityId": one, "unitId": unit}
        await caller(200, "POST", "/api/v1/commands", {"action": "linkAgentMemoryUnitEntity", "data": said})
    bank = {"bank": place["bankId"]}
    await caller(200, "GET", f"{V1}/entities", **bank)
    await caller(200, "GET", f"{V1}/entities/{entities[0]}", **bank)
    await caller(200, "GET", f"{V1}/mentions", **bank)
    await count_pairs(world, caller, place["bankId"])
    pairs = await caller(200, "GET", f"{V1}/cooccurrences", **bank)
    await caller(200, "GET", f"{V1}/neighbourhood", **bank, entity_id=pairs["cooccurrences"][0]["entity_id_1"])
    portal = {"host": "lightapi.net", "service": "genai", "version": "0.1.0"}
    await caller(200, "POST", "/portal/command", {**portal, "action": "createAgentMemoryBank", "data": place})


async def count_pairs(world: World, caller: Caller, bank: str) -> None:
    """Count which entities of a bank occur together, as a worker does."""
    host = identity.host_id(caller.host)
    await complete_bank(lambda: world.database.tenant(host), host, identity.bank_id(host, bank), world.clock())


async def test_every_operation_answers_as_it_is_described(
    world: World, described: dict[str, Any], caller: Caller, turn: dict[str, Any]
) -> None:
    turn = {**turn, "tags": ["trip"], "metadata": {"channel": "web"}}
    await call_turns_and_recall(caller, turn)
    await call_units_and_knowledge(caller)
    await call_banks_and_erasures(caller)
    await call_commands(world, caller)
    await call_gateway_and_service(world, caller)
    await call_operator(world, caller)
    await call_console(world, caller)
    declared = {
        f"{name} {status}"
        for name, operation in operations(described)
        for status in operation["responses"]
        if status.startswith("2")
    }
    answered = {f"{name} {status}" for name, found in caller.held.answered.items() for status in found}
    missed = declared - answered - set(NOT_CALLED)
    assert not missed, f"call these in this test, or say in NOT_CALLED why not: {sorted(missed)}"
    changes = compare_answers({name: describe_answers(bodies) for name, bodies in caller.held.bodies.items()})
    assert not changes, "the API answers differently: mend it, or record the change on purpose (recorded_answers.py)"


def test_the_record_finds_a_name_that_left_moved_or_has_another_kind() -> None:
    whole = b'{"id":"0b7c1f5e-52a7-4a3e-8d51-3f6a1c9b7e20","at":"2026-03-02T09:30:00+00:00","all":[{"n":1},{"n":null}]}'
    recorded = describe_answers([whole])
    assert list(find_changes(recorded, recorded)) == []
    for body in (
        whole.replace(b"+00:00", b"Z"),
        whole.replace(b'"n":1', b'"n":1.5'),
        whole.replace(b'"n":1', b'"n":1,"m":2'),
        b'{"at":"2026-03-02T09:30:00+00:00","id":"0b7c1f5e-52a7-4a3e-8d51-3f6a1c9b7e20","all":[]}',
        b'{"id":"0b7c1f5e-52a7-4a3e-8d51-3f6a1c9b7e20","at":"2026-03-02T09:30:00+00:00"}',
    ):
        assert list(find_changes(recorded, describe_answers([body]))), body


async def call_turns_and_recall(call: Caller, turn: dict[str, Any]) -> None:
    await call(201, "POST", f"{V1}/turns", turn)
    await call(200, "POST", f"{V1}/turns", turn)
    await call(409, "POST", f"{V1}/turns", {**turn, "messages": [{"role": "user", "content": "another"}]})
    refused = {**turn, "turn_id": ""}
    await call(200, "POST", f"{V1}/turns:batch", {"turns": [turn, refused]})
    shown = await call(200, "GET", f"{V1}/turns/monday/1")
    await call(200, "GET", f"{V1}/turns/{shown['id']}")
    await call(404, "GET", f"{V1}/turns/{NO_ID}")
    await call(200, "GET", f"{V1}/turns", session_id="monday", turn_id="1")
    await call(404, "GET", f"{V1}/turns/monday/2")
    await call(200, "GET", f"{V1}/turns", session_id="monday")
    await call(200, "GET", f"{V1}/sessions")
    await call(200, "GET", f"{V1}/sessions/monday")
    await call(200, "GET", f"{V1}/units", limit=1)
    await call(200, "GET", f"{V1}/users")
    item = {"type": "message", "role": "user", "content": "When do we fly?"}
    place = {"session_id": "monday", "turn_id": "2"}
    await call(200, "POST", f"{V1}/turns/before", {**place, "current_input": [item]})
    await call(200, "POST", f"{V1}/turns/after", {**place, "input_items": [item]})
    question = {"query": "Lisbon", "k": 5, "explain": True}
    found = await call(200, "POST", f"{V1}/recall", question)
    call.ids["unit"], call.ids["other"] = (one["unit_id"] for one in found["results"][:2])
    job = await call(202, "POST", f"{V1}/recall/jobs", question)
    await call(200, "GET", f"{V1}/recall/jobs/{job['job_id']}")
    await call(204, "DELETE", f"{V1}/recall/jobs/{job['job_id']}")
    await call(404, "GET", f"{V1}/recall/jobs/{job['job_id']}")
    await call(200, "GET", f"{V1}/banks/default/freshness")
    await call(200, "GET", f"{V1}/freshness", bank="default")
    await call(422, "GET", f"{V1}/freshness", bank="default", position=2**62)


async def call_units_and_knowledge(call: Caller) -> None:
    unit, other = call.ids["unit"], call.ids["other"]
    await call(201, "POST", f"{V1}/directives", {"name": "tone", "content": "Answer briefly."})
    await call(200, "POST", f"{V1}/directives", {"name": "tone", "content": "Answer briefly."})
    found = await call(200, "GET", f"{V1}/directives")
    link = {"from_unit_id": unit, "to_unit_id": other, "link_type": "causes"}
    await call(201, "POST", f"{V1}/links", link)
    await call(200, "POST", f"{V1}/links", link)
    await call(200, "GET", f"{V1}/directives/{found['directives'][0]['directive_id']}")
    await call(200, "GET", f"{V1}/links")
    await call(200, "GET", f"{V1}/links/{unit}/{other}/causes")
    await call(200, "GET", f"{V1}/units/{unit}")
    await call(404, "GET", f"{V1}/units/{NO_ID}")
    # With a directive in the bank, and a message in front of the prompt.
    await call(200, "POST", f"{V1}/recall", {"query": "Lisbon", "max_tokens": 100})
    await call(200, "PATCH", f"{V1}/units/{unit}", {"content": "We fly to Lisbon on Saturday"})
    await call(200, "PUT", f"{V1}/units/{unit}/pin")
    await call(200, "DELETE", f"{V1}/units/{unit}/pin")
    await call(200, "DELETE", f"{V1}/units/{other}", with_facts=True)
    await call(204, "DELETE", f"{V1}/directives/{found['directives'][0]['directive_id']}")
    await call(200, "DELETE", f"{V1}/directives/{found['directives'][0]['directive_id']}", erase=True)
    document = {"content": "Check-in at Hotel Avenida is from 3 pm.", "title": "Hotel", "metadata": {"kind": "hotel"}}
    added = await call(201, "POST", f"{V1}/docs", document)
    await call(200, "POST", f"{V1}/docs", document)
    await call(200, "GET", f"{V1}/docs/{added['doc_id']}")
    await call(200, "GET", f"{V1}/docs", limit=1)
    await call(204, "DELETE", f"{V1}/docs/{added['doc_id']}")
    await call(200, "DELETE", f"{V1}/docs/{added['doc_id']}", erase=True)
    await call(201, "POST", f"{V1}/memories", {"id": "seat", "content": "Ana prefers an aisle seat"})
    await call(200, "POST", f"{V1}/memories", {"id": "seat", "content": "Ana prefers a window seat"})
    await call(200, "GET", f"{V1}/memories/seat")
    await call(204, "DELETE", f"{V1}/memories/seat")
    await call(200, "DELETE", f"{V1}/memories/seat", erase=True)
    await call(404, "GET", f"{V1}/memories/seat")
    await call(200, "GET", f"{V1}/reflections")
    await call(200, "GET", f"{V1}/profile", user_id="ana")


async def call_banks_and_erasures(call: Caller) -> None:
    await call(201, "POST", f"{V1}/banks", {"bank": "trips", "user_id": "ana"})
    await call(200, "POST", f"{V1}/banks", {"bank": "trips", "user_id": "ana"})
    await call(200, "GET", f"{V1}/banks")
    await call(200, "GET", f"{V1}/bank", bank="~ana/trips")
    await call(200, "PATCH", f"{V1}/banks/default", {"language": "en"})
    await call(201, "POST", f"{V1}/banks", {"bank": ".."})
    await call(200, "PATCH", f"{V1}/banks", {"language": "de"}, bank="..")
    await call(404, "PATCH", f"{V1}/banks/nowhere", {"language": "en"})
    found = await call(200, "POST", f"{V1}/recall", {"query": "fly", "k": 5})
    units = [one["unit_id"] for one in found["results"]]
    await call(200, "DELETE", f"{V1}/units/{units[0]}", erase=True)
    await call(204, "DELETE", f"{V1}/units/{units[1]}")
    await call(200, "POST", f"{V1}/erasures/preview", {"kind": "session", "session_id": "monday"})
    receipt = await call(200, "POST", f"{V1}/erasures", {"kind": "session", "session_id": "monday"})
    await call(200, "GET", f"{V1}/erasures/{receipt['erasure_id']}")


async def call_gateway_and_service(world: World, call: Caller) -> None:
    user = await world.tenant(gateway_user="ana")
    who = {"user_id": "ana", "user_key": user.token}
    said = {"sender_id": "ana", "role": "user", "timestamp": 1_772_443_800_000, "content": "We fly on Friday"}
    await call(200, "POST", "/memories/add", {**who, "session_id": "chat:1", "messages": [said]})
    await call(200, "POST", "/memories/flush", {**who, "session_id": "chat:1"})
    asked = {"conversation_id": "1", "query": "Friday", "scope": ["current_chat"]}
    found = await call(200, "POST", "/memories/search", {**who, **asked})
    assert found["results"]
    for path in ("/health/live", "/health/ready", "/metrics"):
        await call(200, "GET", path)
    await user.http.aclose()


async def call_console(world: World, call: Caller) -> None:
    """The console's page shows its session in place of a key."""
    tenant = await world.tenant()
    transport = httpx.ASGITransport(call.held)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8300") as browser:
        page, session = Caller(browser, call.held), f"{V1}/console/session"
        await page(201, "POST", f"{V1}/console/links", {"keys": [tenant.token]})
        half = (await page(201, "POST", session, {"key": tenant.token}))["session"]
        browser.headers["x-console-session"] = half
        await page(200, "GET", session)
        await page(204, "DELETE", session)
    await tenant.http.aclose()


async def call_operator(world: World, call: Caller) -> None:
    token = await OperatorKeys(world.database).create("described", makes_keys=True)
    call.http.headers["authorization"] = f"Bearer {token}"
    ops, tenant = f"{V1}/operator", {"tenant": "described"}
    await call(201, "POST", f"{ops}/keys", {**tenant, "label": "one", "expires_s": 3600})
    [key] = (await call(200, "GET", f"{ops}/keys", **tenant))["keys"]
    await call(201, "POST", f"{ops}/keys/{key['key_id']}/rotate", tenant)
    await call(204, "DELETE", f"{ops}/keys/{key['key_id']}", **tenant)
    await call(404, "DELETE", f"{ops}/keys/{key['key_id']}", **tenant)
    await call(200, "GET", f"{ops}/tenants", limit=1)
    await call(200, "GET", f"{ops}/tenants/{identity.host_id('described')}")
    await call(404, "GET", f"{ops}/tenants/{NO_ID}")
    await call(200, "PUT", f"{ops}/quotas", {**tenant, "max_turns": 5})
    await call(200, "GET", f"{ops}/quotas", **tenant)
    await call_snapshots(call, f"{ops}/snapshots")
    await call_generations(world, call, f"{ops}/embeddings")
    first, *_ = (await call(200, "GET", f"{ops}/jobs", limit=5))["jobs"]
    await call(200, "GET", f"{ops}/jobs/{first['id']}")
    await call(200, "POST", f"{ops}/jobs", {**tenant, "action": "retry", "stage": "extraction", "ids": [NO_ID]})
    where = {"tenant": "described", "status": "dead"}
    counted = (await call(200, "GET", f"{ops}/jobs/count?tenant=described"))["counted_at"]
    await call(200, "POST", f"{ops}/jobs/matching", {"action": "retry", "where": where, "counted_at": counted})
    await call(404, "GET", f"{ops}/jobs/{NO_ID}")
    await call(404, "POST", f"{ops}/jobs/{NO_ID}/settle", {"found": "delivered"})
    delivery = await open_unknown_delivery(world)
    await call(200, "POST", f"{ops}/jobs/{delivery}/settle", {"found": "not-delivered", "then": "skip"})
    await call_letters(world, call, ops)
    await call(200, "POST", f"{ops}/workers/drain", {"workers": ["nobody:1:2"]})
    gateway = {**tenant, "url": "https://gateway.example", "user_id": "described-user", "user_key": "uk_1"}
    await call(200, "PUT", f"{ops}/targets", gateway)
    await call(409, "PUT", f"{ops}/targets", {**gateway, "bank": "another"})
    await call(200, "DELETE", f"{ops}/targets", **tenant)
    await world.figures.read_now()
    await call(200, "GET", f"{ops}/figures/stream", for_s=0)
    for path in ("figures", "status", "audit", "targets", "jobs/count", "workers", "settings", "doctor"):
        await call(200, "GET", f"{ops}/{path}")


async def call_letters(world: World, call: Caller, ops: str) -> None:
    why = Rejection("INVALID_ARGUMENT", "session_id: must not be blank")
    for name in ("one", "two"):
        await asyncio.to_thread(world.queue.letters.put, name, "turns", b"{}", 1, why)
    await call(200, "GET", f"{ops}/queues")
    [letter] = (await call(200, "GET", f"{ops}/letters", limit=1))["letters"]
    await call(200, "GET", f"{ops}/letters", names=True)
    await call(
        200, "POST", f"{ops}/letters", {"action": "retry", "queue": letter["queue"], "ids": [letter["letter_id"]]}
    )
    newest = (await call(200, "GET", f"{ops}/letters/count"))["newest_at"]
    await call(200, "POST", f"{ops}/letters/matching", {"action": "drop", "where": {}, "newest_at": newest})
    await asyncio.to_thread(world.queue.letters.client.delete, f"{world.queue.letters.prefix}:turns")
    await asyncio.to_thread(world.queue.letters.client.delete, f"{world.queue.letters.prefix}:turns.msgs")


async def call_snapshots(call: Caller, at: str) -> None:
    tenant = {"tenant": "described"}
    await call(409, "POST", at, {**tenant, "include": ["everything"]})
    begun = await call(201, "POST", at, {**tenant, "include": ["agent_memory", "agent_session_history"]})
    made = begun["snapshot"]["snapshot_id"]
    page = await call(200, "GET", f"{at}/{made}/events", **tenant)
    await call(409, "GET", f"{at}/{made}/events", **tenant)
    taken = (await call(201, "POST", f"{at}/imports", {**tenant, "first_line": begun["first_line"]}))["snapshot"]
    into = f"{at}/{taken['snapshot_id']}"
    events = [*page["events"], {"type": "another"}]
    answer = await call(200, "POST", f"{into}/events", {**tenant, "first": 0, "events": events})
    assert answer["problems"]
    await call(409, "POST", f"{into}/finish", {**tenant, "events": len(events) + 1})
    await call(200, "POST", f"{into}/finish", {**tenant, "events": len(events)})
    await call(200, "GET", into, **tenant)
    await call(404, "GET", f"{at}/{NO_ID}", **tenant)
    await call(200, "GET", at, **tenant)


async def call_generations(world: World, call: Caller, at: str) -> None:
    await WorkerRegistry(world.database).begin("described:1:2", "0.1.0", ["embedding"], ("another", 7))
    await make_generation_live(world.database, 7, 384, "another")
    await call(409, "GET", f"{at}/comparison")
    built = await call(200, "POST", f"{at}/build")
    await call(200, "GET", at)
    await call(200, "GET", f"{at}/comparison", questions=1)
    await call(409, "POST", f"{at}/switch", {})
    await call(200, "POST", f"{at}/switch", {"force": True})
    await call(409, "POST", f"{at}/build")
    await call(200, "POST", f"{at}/rollback")
    await call(200, "DELETE", f"{at}/{built['generations'][1]['generation']}")
    await call(409, "DELETE", f"{at}/7")
    await call(404, "DELETE", f"{at}/x")
    await forget_generations(world.database)
    await WorkerRegistry(world.database).end("described:1:2")


async def open_unknown_delivery(world: World) -> UUID:
    """Return the id of a turn whose delivery to a gateway has an unknown outcome."""
    tenant = await world.tenant()
    host = identity.host_id(tenant.host)
    await hand_to(world.database, host, closed_port(), user="described")
    said = {"session_id": "s", "turn_id": "1", "messages": [{"role": "user", "content": "We fly on Friday"}]}
    assert (await tenant.http.post(f"{V1}/turns", json={**said, "gateway": True})).status_code == 201
    unknown = "update afterturn.ledger_t set status = 'add_unknown' where host_id = :host and stage = 'gateway'"
    await world.sql(unknown, host=host)
    await tenant.http.aclose()
    return identity.turn_id(identity.session_id(identity.bank_id(host, "default"), "s"), "1")


async def test_every_operation_refuses_as_it_is_described(world: World, described: dict[str, Any]) -> None:
    """Without a key, with one that may only read, with broken bodies and parameters: judged by HeldToSchema."""
    reader = await world.tenant(write=False)
    refused_inputs: tuple[dict[str, Any], ...] = ({}, {"json": {}}, {"content": b"{"}, {"params": {"unknown": "1"}})
    refused = 0
    for name, _ in operations(described):
        method, path = name.split(" ")
        asked = (
            path.replace("{generation}", "1")
            .replace("{bank}", "default")
            .replace("{session_id}", "s")
            .replace("{turn_id}", "t")
        )
        for kind in (
            "tenant",
            "key",
            "unit",
            "entity",
            "from_unit",
            "to_unit",
            "doc",
            "directive",
            "erasure",
            "job",
            "memory",
            "snapshot",
        ):
            asked = asked.replace(f"{{{kind}_id}}", str(uuid4()))
        for client in (reader.http, world.client()):
            for more in refused_inputs:
                reply = await client.request(method, asked, **more)
                refused += reply.status_code >= 400
    assert refused > 4 * 35
    await reader.http.aclose()


def test_the_page_of_the_http_api_is_current(described: dict[str, Any]) -> None:
    page = (Path(__file__).parents[3] / "docs" / "http.md").read_text()
    assert page == render_reference(described), "run: .venv/bin/python -m producers.http.reference_page > docs/http.md"


def test_a_module_of_routes_has_the_name_of_its_tag() -> None:
    named = {
        one.name: importlib.import_module(f"{routes.__name__}.{one.name}")
        for one in pkgutil.iter_modules(routes.__path__)
    }
    tags = {name: module.router.tags for name, module in named.items() if hasattr(module, "router")}
    assert len(tags) >= 10
    assert tags == {name: [name] for name in tags}
