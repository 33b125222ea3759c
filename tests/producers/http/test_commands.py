"""Commands of a portal: both forms do the same, once for each key, and what they did is readable at once."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import event

from store import identity
from store.replay import ReplayScope, verify_log
from tests.producers.conftest import Tenant, World

PORTAL = {"host": "lightapi.net", "service": "genai", "version": "0.1.0"}
BANK = str(UUID(int=77))


async def send(
    tenant: Tenant, action: str, key: str | None = None, *, portal: bool = False, **data: Any
) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    told = {"bankId": BANK, **data}
    if portal:
        return await tenant.http.post(
            "/portal/command", json={**PORTAL, "action": action, "data": told}, headers=headers
        )
    return await tenant.http.post("/api/v1/commands", json={"action": action, "data": told}, headers=headers)


async def do(tenant: Tenant, action: str, key: str | None = None, **data: Any) -> Mapping[str, Any]:
    reply = await send(tenant, action, key, **data)
    assert reply.status_code == 200, reply.text
    told = reply.json()
    result: Mapping[str, Any] = told.get("result", told)
    assert not {"code", "statusCode"} & (set(told) | set(result))
    return result


async def refused(tenant: Tenant, action: str, key: str | None = None, **data: Any) -> str:
    reply = await send(tenant, action, key, **data)
    assert reply.status_code >= 400, reply.text
    return str(reply.json()["error"]["code"])


async def recalled(tenant: Tenant, query: str, bank: str = BANK) -> list[str]:
    reply = await tenant.http.post("/api/v1/recall", json={"query": query, "bank": bank})
    return [one["text"] for one in reply.json()["results"]]


async def replays_equal(world: World, tenant: Tenant) -> None:
    report = await verify_log(world.postgres.owner_url, ReplayScope(identity.host_id(tenant.host)))
    assert (report.equal, [one.name for one in report.derived if not one.equal]) == (True, [])


@pytest.mark.parametrize("portal", [False, True])
@pytest.mark.law("L4")
async def test_an_agent_retains_a_unit_and_recalls_it_at_once(world: World, *, portal: bool) -> None:
    everybody = await world.tenant()
    agent = await world.tenant(everybody.host, agent="planner")
    host = identity.host_id(agent.host)
    made = await do(agent, "createAgentMemoryBank", portal=portal, hostId=str(host), bankName="session-77")
    assert made["bankId"] == str(identity.bank_id(host, f"@planner/{BANK}"))
    said = {"content": "User: where is the violin?\nAssistant: In the attic.", "factType": "experience"}
    kept = await do(agent, "retainAgentMemoryUnit", portal=portal, metadata={"session_id": "s"}, **said)
    assert (UUID(kept["unitId"]).version, kept["identifiedBy"], kept["created"]) == (5, "text", True)
    assert await recalled(agent, "violin") == [said["content"]]
    again = await do(agent, "retainAgentMemoryUnit", portal=portal, metadata={"session_id": "s"}, **said)
    assert (again["unitId"], again["created"]) == (kept["unitId"], False)
    by_id = await do(agent, "retainAgentMemoryUnit", portal=portal, content="The cello too.", bankId=made["bankId"])
    assert by_id["bankId"] == kept["bankId"], "the log's own id names the bank as well"
    await do(agent, "deleteAgentMemoryUnit", portal=portal, unitId=kept["unitId"])
    assert await recalled(agent, "violin") == []
    await replays_equal(world, agent)


async def test_a_new_unit_takes_no_transaction_more_than_a_single_memory(world: World, ana: Tenant) -> None:
    """Which bank the log's id names is looked up once; whether the unit is there already, the log itself says."""
    of_log = (await do(ana, "createAgentMemoryBank"))["bankId"]
    begun = list[object]()
    engine = world.database._app.sync_engine
    note = begun.append
    event.listen(engine, "begin", note)

    async def count(write: Callable[[int], Awaitable[object]]) -> int:
        counts = []
        for n in range(5):
            begun.clear()
            await write(n)
            counts.append(len(begun))
        return min(counts)

    try:
        memory = {"bank": BANK, "content": "The viola is in the barn"}
        alone = await count(lambda n: ana.http.post("/api/v1/memories", json={**memory, "id": f"m{n}"}))
        keyed = await count(lambda n: do(ana, "retainAgentMemoryUnit", f"key {n}", content=f"The viola {n}"))
        plain = await count(lambda n: do(ana, "retainAgentMemoryUnit", content=f"The harp {n}"))
        by_id = await count(lambda n: do(ana, "retainAgentMemoryUnit", bankId=of_log, content=f"The lute {n}"))
    finally:
        event.remove(engine, "begin", note)
    assert (keyed, plain, by_id) == (alone, alone, alone)


@pytest.mark.law("L2")
async def test_a_command_with_one_key_is_done_once(world: World, ana: Tenant) -> None:
    await do(ana, "createAgentMemoryBank")
    unit = await do(ana, "retainAgentMemoryUnit", "k1", content="The violin is in the attic.")
    assert unit["identifiedBy"] == "key"
    for _ in range(2):
        again = await do(ana, "retainAgentMemoryUnit", "k1", content="The violin is in the attic.")
        assert (again["unitId"], again["created"]) == (unit["unitId"], False)
    assert await refused(ana, "retainAgentMemoryUnit", "k1", content="Another text.") == "KEY_REUSED"
    other = await do(ana, "retainAgentMemoryUnit", "k2", content="The violin is in the attic.")
    assert other["unitId"] != unit["unitId"]
    rule = {"name": "tone", "content": "Answer briefly.", "priority": 3}
    first = await do(ana, "createAgentMemoryDirective", "k3", **rule)
    assert await do(ana, "createAgentMemoryDirective", "k3", **rule) == first
    assert await refused(ana, "createAgentMemoryDirective", "k3", **{**rule, "priority": 4}) == "KEY_REUSED"
    await do(ana, "deleteAgentMemoryUnit", unitId=unit["unitId"])
    late = await do(ana, "retainAgentMemoryUnit", "k1", content="The violin is in the attic.")
    assert (late["unitId"], late["created"]) == (unit["unitId"], False), "a late retry brings nothing back"
    assert await recalled(ana, "violin") == ["The violin is in the attic."]
    events = await world.sql(
        "select count(*) from afterturn.event_store_t where host_id = :host and event_type like '%Directive%'",
        host=identity.host_id(ana.host),
    )
    assert events[0][0] == 1


async def test_versions_are_those_that_were_expected_or_a_conflict(world: World, ana: Tenant) -> None:
    await do(ana, "createAgentMemoryBank")
    rule: dict[str, Any] = {"directiveId": str(uuid4()), "name": "tone", "content": "Answer briefly.", "priority": 3}
    assert (await do(ana, "createAgentMemoryDirective", **rule))["aggregateVersion"] == 1
    assert await refused(ana, "createAgentMemoryDirective", **rule) == "VERSION_CONFLICT", "it lives already"
    changed = {**rule, "content": "Answer at length."}
    assert await refused(ana, "updateAgentMemoryDirective", aggregateVersion=2, **changed) == "VERSION_CONFLICT"
    skipping = {**changed, "newAggregateVersion": 3}
    assert await refused(ana, "updateAgentMemoryDirective", aggregateVersion=1, **skipping) == "INVALID_ARGUMENT"
    done = await do(ana, "updateAgentMemoryDirective", aggregateVersion=1, newAggregateVersion=2, **changed)
    assert done["aggregateVersion"] == 2
    listed = (await ana.http.get(f"/api/v1/directives?bank={BANK}")).json()["directives"]
    assert [(one["content"], one["laid_down_by"]) for one in listed] == [("Answer at length.", "operator")]
    place = {"directiveId": rule["directiveId"]}
    assert await refused(ana, "deleteAgentMemoryDirective", aggregateVersion=1, **place) == "VERSION_CONFLICT"
    assert (await do(ana, "deleteAgentMemoryDirective", aggregateVersion=2, **place))["aggregateVersion"] == 3
    assert await refused(ana, "deleteAgentMemoryDirective", **place) == "NOT_FOUND"
    unit = await do(ana, "retainAgentMemoryUnit", content="The violin is in the attic.")
    named = {"unitId": unit["unitId"]}
    assert await refused(ana, "deleteAgentMemoryUnit", aggregateVersion=4, **named) == "VERSION_CONFLICT"
    assert await do(ana, "deleteAgentMemoryUnit", aggregateVersion=1, **named)
    await replays_equal(world, ana)


async def test_units_entities_and_links_are_joined_counted_and_parted(world: World, ana: Tenant) -> None:
    await do(ana, "createAgentMemoryBank")
    units = [
        (await do(ana, "retainAgentMemoryUnit", content=f"The violin number {n} is in the attic."))["unitId"]
        for n in range(2)
    ]
    link = {"fromUnitId": units[0], "toUnitId": units[1], "linkType": "causes"}
    assert (await do(ana, "createAgentMemoryLink", weight=0.5, **link))["aggregateVersion"] == 1
    assert (await do(ana, "updateAgentMemoryLink", weight=0.7, **link))["aggregateVersion"] == 2
    assert await refused(ana, "createAgentMemoryLink", **{**link, "toUnitId": str(uuid4())}) == "NOT_FOUND"
    entity = (await do(ana, "createAgentMemoryEntity", canonicalName="Karl Berger"))["entityId"]
    tie = {"unitId": units[0], "entityId": entity}
    assert (await do(ana, "linkAgentMemoryUnitEntity", **tie))["aggregateVersion"] == 1
    assert (await do(ana, "unlinkAgentMemoryUnitEntity", **tie))["aggregateVersion"] == 2
    assert await refused(ana, "unlinkAgentMemoryUnitEntity", **tie) == "NOT_FOUND"
    assert (await do(ana, "linkAgentMemoryUnitEntity", **tie))["aggregateVersion"] == 3
    await do(ana, "deleteAgentMemoryEntity", entityId=entity)
    await do(ana, "deleteAgentMemoryLink", **link)
    await replays_equal(world, ana)


async def test_a_session_is_begun_appended_to_and_ended(world: World, ana: Tenant) -> None:
    await do(ana, "createAgentMemoryBank")
    session = {"sessionId": str(uuid4())}
    token = ana.token
    messages = [{"role": "user", "name": f"Ana {token}", "content": f"The violin; {token}"}]
    assert await refused(ana, "appendAgentSessionHistory", messages=messages, **session) == "NOT_FOUND"
    made = await do(ana, "createAgentSessionHistory", messages=[], **session)
    assert made["sessionId"] == str(identity.session_id(UUID(made["bankId"]), session["sessionId"]))
    assert await refused(ana, "createAgentSessionHistory", messages=[], **session) == "VERSION_CONFLICT"
    for n in (2, 3):
        done = await do(ana, "appendAgentSessionHistory", f"m{n}", messages=messages, **session)
        assert done["aggregateVersion"] == n
    assert (await do(ana, "appendAgentSessionHistory", "m3", messages=messages, **session))["aggregateVersion"] == 3
    rows = await world.sql(
        "select cast(message as text) from afterturn.session_message_t where host_id = :host order by seq",
        host=identity.host_id(ana.host),
    )
    assert len(rows) == 2
    assert all("violin" in row[0] and token not in row[0] for row in rows)
    summary = [{"role": "system", "content": f"A violin, twice; {token}"}]
    assert (await do(ana, "compactAgentSessionHistory", "c", messages=summary, **session))["aggregateVersion"] == 4
    assert (await do(ana, "compactAgentSessionHistory", "c", messages=summary, **session))["aggregateVersion"] == 4
    action = "compactAgentSessionHistory"
    assert await refused(ana, action, messages=summary, keptFrom=1, **session) == "INVALID_ARGUMENT"
    [shown] = await world.sql(
        "select cast(messages as text) from hindsight.agent_session_history_t where host_id = :host",
        host=identity.host_id(ana.host),
    )
    assert "twice" in shown[0]
    assert "The violin" not in shown[0]
    assert token not in shown[0]
    assert (await do(ana, "deleteAgentSessionHistory", **session))["aggregateVersion"] == 5
    await do(ana, "updateAgentMemoryBank", disposition={"tone": f"warm {token}"})
    logged = await world.sql(
        "select cast(e as text) from afterturn.event_store_t e where host_id = :host", host=identity.host_id(ana.host)
    )
    assert any("warm" in row[0] for row in logged)
    assert not any(token in row[0] for row in logged)
    await replays_equal(world, ana)


async def test_a_retained_unit_opens_the_stages_of_a_single_memory_and_never_the_gateway(
    world: World, ana: Tenant
) -> None:
    await do(ana, "createAgentMemoryBank")
    retained = await do(ana, "retainAgentMemoryUnit", content="The violin is in the attic.")
    memory = {"bank": BANK, "content": "The viola is in the barn."}
    single = (await ana.http.post("/api/v1/memories", json=memory)).json()
    rows = await world.sql(
        "select u.unit_id, array_agg(l.stage order by l.stage) as stages from afterturn.agent_memory_unit_t u"
        " join afterturn.ledger_t l on l.host_id = u.host_id and l.turn_id = u.turn_id and l.status = 'pending'"
        " where u.host_id = :host group by u.unit_id",
        host=identity.host_id(ana.host),
    )
    stages = {str(row.unit_id): row.stages for row in rows}
    assert stages.keys() == {retained["unitId"], single["unit_id"]}
    assert all(one == ["embedding", "extraction", "projection"] for one in stages.values())


@pytest.mark.law("L7")
@pytest.mark.parametrize("portal", [False, True])
async def test_a_secret_in_a_text_is_stored_by_no_command_and_what_only_sounds_like_one_stays(
    world: World, ana: Tenant, *, portal: bool
) -> None:
    await do(ana, "createAgentMemoryBank", portal=portal)
    told = f"The key is {ana.token}."
    await do(ana, "retainAgentMemoryUnit", portal=portal, content=told, context=f"about {ana.token}")
    await do(ana, "createAgentMemoryDoc", portal=portal, originalText=told, title=told)
    await do(ana, "createAgentMemoryDirective", portal=portal, name=told, content=told, priority=1)
    await do(ana, "createAgentMemoryEntity", portal=portal, canonicalName=told)
    await do(ana, "updateAgentMemoryBank", portal=portal, background=told)
    plain, counters = "The user forgot the password of the wiki.", {"max_token": "512", "secret_santa": "Karl"}
    unit = await do(ana, "retainAgentMemoryUnit", portal=portal, content=plain, metadata=counters)
    host = identity.host_id(ana.host)
    for table in ("event_store_t", "agent_memory_unit_t", "agent_memory_doc_t", "unit_word_t", "agent_memory_bank_t"):
        rows = await world.sql(f"select cast(t as text) from afterturn.{table} t where host_id = :host", host=host)
        assert rows, table
        assert not any(ana.token in row[0] for row in rows), table
    shown = (await ana.http.get(f"/api/v1/units/{unit['unitId']}?bank={BANK}")).json()
    assert (shown["text"], shown["metadata"]) == (plain, counters)


async def test_a_bank_is_changed_and_ended_when_it_is_empty(world: World, ana: Tenant) -> None:
    await do(ana, "createAgentMemoryBank")
    changed = await do(ana, "updateAgentMemoryBank", "b1", background="A household.", disposition={"empathy": 5})
    assert changed["aggregateVersion"] == 2
    assert (await do(ana, "updateAgentMemoryBank", "b1", background="A household.", disposition={"empathy": 5}))[
        "aggregateVersion"
    ] == 2
    doc = await do(ana, "createAgentMemoryDoc", originalText="Check-in is from 3 pm.", title="Hotel")
    unit = await do(ana, "retainAgentMemoryUnit", content="The violin is in the attic.")
    session = {"sessionId": str(uuid4())}
    await do(ana, "createAgentSessionHistory", **session)
    reply = await send(ana, "deleteAgentMemoryBank")
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "BANK_IN_USE")
    living = reply.json()["error"]["details"]
    assert (living["documents"], living["sessions"], living["units"] >= 2) == (1, 1, True)
    await do(ana, "deleteAgentMemoryDoc", docId=doc["docId"])
    await do(ana, "deleteAgentMemoryUnit", unitId=unit["unitId"])
    await do(ana, "deleteAgentSessionHistory", **session)
    assert await refused(ana, "deleteAgentMemoryBank", aggregateVersion=1) == "VERSION_CONFLICT"
    assert (await do(ana, "deleteAgentMemoryBank", "gone", aggregateVersion=2))["aggregateVersion"] == 3
    assert (await do(ana, "deleteAgentMemoryBank", "gone", aggregateVersion=2))["aggregateVersion"] == 3
    assert await refused(ana, "deleteAgentMemoryBank") == "NOT_FOUND"
    await replays_equal(world, ana)


@pytest.mark.law("L6")
async def test_a_command_reaches_no_bank_of_another_agent_user_or_tenant(world: World, ana: Tenant) -> None:
    planner, cook = await world.tenant(ana.host, agent="planner"), await world.tenant(ana.host, agent="cook")
    user, foreign = await world.tenant(ana.host, user="ann"), await world.tenant()
    made = await do(planner, "createAgentMemoryBank")
    unit = await do(planner, "retainAgentMemoryUnit", content="The zq81 is in the attic.")
    for other in (cook, user, foreign):
        for bank in (BANK, made["bankId"]):
            place = {"bankId": bank, "unitId": unit["unitId"]}
            assert await refused(other, "deleteAgentMemoryUnit", **place) == "NOT_FOUND"
            assert await refused(other, "updateAgentMemoryBank", bankId=bank, background="x") in (
                "NOT_FOUND", "PERMISSION_DENIED",
            )  # fmt: skip
            await do(other, "retainAgentMemoryUnit", bankId=bank, content="The zq82 is in the cellar.")
    assert await recalled(planner, "zq81 zq82") == ["The zq81 is in the attic."]
    assert await refused(planner, "createAgentMemoryBank", agentDefId=str(uuid4())) == "PERMISSION_DENIED"
    assert await refused(planner, "createAgentMemoryBank", userId=str(uuid4())) == "PERMISSION_DENIED"
    assert await refused(planner, "retainAgentMemoryUnit", hostId=str(uuid4()), content="x") == "PERMISSION_DENIED"


WRONG_FIELDS: tuple[tuple[str, Any], ...] = (
    *(("directiveId", one) for one in ("x", 5, [1], {"a": 1})),
    *(("priority", one) for one in (2**31, -(2**40), "high")),
    *(("bytes", 5), ("laidDownBy", "somebody"), ("name", " "), ("content", "")),
)
#: Data that an action takes, and what is wrong in each of these: nothing of it may be stored, or end in a 500.
WRONG_DATA: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("createAgentMemoryBank", {}, {"background": "lost if it were taken"}),
    ("createAgentMemoryBank", {}, {"aggregateVersion": 7}),
    ("deleteAgentMemoryBank", {}, {"sessionId": str(UUID(int=1))}),
    ("createAgentMemoryDoc", {"originalText": "A text."}, {"aggregateVersion": "1"}),
    ("createAgentMemoryDoc", {"originalText": "A text."}, {"aggregateVersion": 3}),
    ("deleteAgentMemoryDoc", {"docId": str(UUID(int=1))}, {"unitId": str(UUID(int=1))}),
    ("retainAgentMemoryUnit", {"content": "A text."}, {"aggregateVersion": -1}),
    ("retainAgentMemoryUnit", {"content": "A text."}, {"aggregateVersion": 5}),
    ("retainAgentMemoryUnit", {"content": "A text."}, {"newAggregateVersion": 9}),
    ("deleteAgentMemoryUnit", {"unitId": str(UUID(int=1))}, {"reflectionId": str(UUID(int=1))}),
    *(
        (action, {"name": "tone", "content": "Be brief.", "directiveId": str(UUID(int=1))}, {field: value})
        for action in ("createAgentMemoryDirective", "updateAgentMemoryDirective")
        for field, value in WRONG_FIELDS
    ),
    ("createAgentMemoryEntity", {"canonicalName": "Karl"}, {"entityId": "1"}),
    ("createAgentMemoryEntity", {}, {"canonicalName": "  "}),
    ("deleteAgentMemoryEntity", {}, {"entityId": [1]}),
    *(
        (action, {"fromUnitId": str(UUID(int=1)), "toUnitId": str(UUID(int=2))}, {"linkType": wrong})
        for action in ("createAgentMemoryLink", "updateAgentMemoryLink", "deleteAgentMemoryLink")
        for wrong in (5, ["causes"], None, "friend")
    ),
    *(
        (f"{action}AgentSessionHistory", {"messages": []} if action != "delete" else {}, wrong)
        for action in ("create", "append", "compact", "delete")
        for wrong in ({}, {"sessionId": None}, {"sessionId": "x"}, {"sessionId": str(UUID(int=1)), "turnName": "t"})
    ),
)


async def test_data_that_an_action_does_not_take_is_refused_and_nothing_is_written(world: World, ana: Tenant) -> None:
    await do(ana, "createAgentMemoryBank")
    written = "select count(*) from afterturn.event_store_t where host_id = :host"
    before = await world.sql(written, host=identity.host_id(ana.host))
    wrong = []
    for action, data, change in WRONG_DATA:
        reply = await send(ana, action, **{**data, **change})
        if reply.status_code not in (409, 422):
            wrong.append((action, change, reply.status_code))
    assert wrong == []
    assert await world.sql(written, host=identity.host_id(ana.host)) == before


async def test_an_id_is_the_same_however_it_is_spelled_and_names_one_kind_of_thing(world: World, ana: Tenant) -> None:
    await do(ana, "createAgentMemoryBank")
    rule: dict[str, Any] = {"directiveId": str(uuid4()).upper(), "name": "tone", "content": "Be brief."}
    assert (await do(ana, "createAgentMemoryDirective", **rule))["aggregateVersion"] == 1
    assert (await do(ana, "updateAgentMemoryDirective", **rule, priority=2))["aggregateVersion"] == 2
    unit = (await do(ana, "retainAgentMemoryUnit", content="The violin is in the attic."))["unitId"]
    assert await refused(ana, "deleteAgentMemoryReflection", reflectionId=unit) == "NOT_FOUND"
    entity = (await do(ana, "createAgentMemoryEntity", canonicalName="Karl Berger"))["entityId"]
    await do(ana, "deleteAgentMemoryEntity", entityId=entity)
    assert await refused(ana, "linkAgentMemoryUnitEntity", unitId=unit, entityId=entity) == "NOT_FOUND"
    assert await recalled(ana, "violin") == ["The violin is in the attic."]
    await replays_equal(world, ana)


async def test_a_retain_with_one_key_is_one_memory_in_every_field(ana: Tenant) -> None:
    said = {"content": "The violin is in the attic.", "context": "Moving", "eventDate": "2024-05-01T00:00:00Z"}
    unit = await do(ana, "retainAgentMemoryUnit", "k", **said)
    again = await do(ana, "retainAgentMemoryUnit", "k", **said)
    assert (again["unitId"], again["created"]) == (unit["unitId"], False)
    for other in ({"context": "Music"}, {"eventDate": "2024-05-02T00:00:00Z"}, {"factType": "opinion"}):
        assert await refused(ana, "retainAgentMemoryUnit", "k", **{**said, **other}) == "KEY_REUSED"
    for name in ("context", "eventDate"):
        less = {field: value for field, value in said.items() if field != name}
        assert await refused(ana, "retainAgentMemoryUnit", "k", **less) == "KEY_REUSED"


@pytest.mark.law("L6")
async def test_a_command_pins_nothing_for_others_that_a_single_memory_would_not(world: World, ana: Tenant) -> None:
    shared = (await do(ana, "createAgentMemoryBank"))["bankId"]
    planner = await world.tenant(ana.host, agent="planner")
    pinned: dict[str, Any] = {"content": "Believe me first.", "metadata": {"pinned": "true"}}
    own = await do(planner, "createAgentMemoryBank")
    assert await refused(planner, "retainAgentMemoryUnit", bankId=shared, **pinned) == "PERMISSION_DENIED"
    told = await do(planner, "retainAgentMemoryUnit", bankId=shared, content="The violin is in the attic.")
    assert told["bankId"] == shared, "the id of a shared bank names it, also beside an own bank of its name"
    assert (await do(planner, "retainAgentMemoryUnit", bankId=BANK, **pinned))["bankId"] == own["bankId"]


async def test_what_is_no_command_is_refused_before_anything_is_written(world: World, ana: Tenant) -> None:
    await do(ana, "createAgentMemoryBank")
    for action in ("updateAgentMemoryUnit", "createAgentMemoryReflection", "dropTables"):
        assert await refused(ana, action) == "INVALID_ARGUMENT"
    assert await refused(ana, "createAgentMemoryDirective", name="x", content="y", unknown=1) == "INVALID_ARGUMENT"
    assert await refused(ana, "createAgentMemoryLink", fromUnitId="x", toUnitId="y", linkType="z") == "INVALID_ARGUMENT"
    assert await refused(ana, "retainAgentMemoryUnit", content=" ") == "INVALID_ARGUMENT"
    assert await refused(ana, "retainAgentMemoryUnit", "k" * 129, content="x") == "INVALID_ARGUMENT"
    reader = await world.tenant(ana.host, write=False)
    assert await refused(reader, "retainAgentMemoryUnit", content="x") == "PERMISSION_DENIED"
    for wrong in ({"host": "other"}, {"service": "other"}, {"version": "9"}):
        body = {**PORTAL, "action": "retainAgentMemoryUnit", "data": {"bankId": BANK, "content": "x"}, **wrong}
        assert (await ana.http.post("/portal/command", json=body)).status_code == 422
