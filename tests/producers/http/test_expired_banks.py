"""Nothing is written into a bank that has expired, by any writer; only what begins it again does, and erasures."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from producers.service.commands import ACTIONS
from store import identity
from tests.producers.conftest import Tenant, World

V1 = "/api/v1"
BANK = str(UUID(int=9))
HEAD = "select max(position) as head from afterturn.event_store_t where host_id = :host and bank_id = :bank"
LIVES = "select expires_at from afterturn.agent_memory_bank_t where host_id = :host and bank_id = :bank and active"
REFUSED, UNSEEN = "409 TURN_ENDED", "404 NOT_FOUND"

#: Each writer by its route, with what it is refused by: what makes or changes something says that the bank has ended,
#: and of a thing that reads do not show, it may say that there is none.
ROUTES: dict[str, tuple[str, str, dict[str, Any] | None]] = {
    "POST /api/v1/turns": (REFUSED, "turns", {"session_id": "s", "turn_id": "9", "messages": "said"}),
    "POST /api/v1/turns/after": (REFUSED, "turns/after", {"session_id": "s", "turn_id": "8", "input_items": "items"}),
    "PATCH /api/v1/units/{unit_id}": (REFUSED, "units/{unit}?bank={bank}", {"content": "The tent is red"}),
    "DELETE /api/v1/units/{unit_id}": (REFUSED, "units/{unit}?bank={bank}", None),
    "PUT /api/v1/units/{unit_id}/pin": (REFUSED, "units/{unit}/pin?bank={bank}", None),
    "DELETE /api/v1/units/{unit_id}/pin": (REFUSED, "units/{unit}/pin?bank={bank}", None),
    "POST /api/v1/docs": (REFUSED, "docs", {"content": "Another manual"}),
    "POST /api/v1/docs by its hash": (REFUSED, "docs", {"content_hash": "ab" * 32}),
    "DELETE /api/v1/docs/{doc_id}": (UNSEEN, "docs/{doc}?bank={bank}", None),
    "POST /api/v1/directives": (REFUSED, "directives", {"name": "form", "content": "Write letters."}),
    "DELETE /api/v1/directives/{directive_id}": (REFUSED, "directives/{directive}?bank={bank}", None),
    "POST /api/v1/links": (REFUSED, "links", {"from_unit_id": "unit", "to_unit_id": "other", "link_type": "causes"}),
    "POST /api/v1/memories": (REFUSED, "memories", {"id": "m", "content": "The tent is red"}),
    "POST /api/v1/memories anew": (REFUSED, "memories", {"content": "The lamp is red"}),
    "DELETE /api/v1/memories/{memory_id}": (REFUSED, "memories/m?bank={bank}", None),
}
#: Routes that write nothing into a bank, begin one again, erase, or are tried in other ways.
OTHERS = {
    "POST /api/v1/turns/before": "reads",
    "POST /api/v1/turns:batch": "writes as POST /api/v1/turns does: test_expiry.py",
    "POST /api/v1/recall": "reads",
    "POST /api/v1/recall/jobs": "reads",
    "DELETE /api/v1/recall/jobs/{job_id}": "is of no bank",
    "POST /api/v1/erasures": "an erasure reaches what has expired",
    "POST /api/v1/erasures/preview": "reads",
    "POST /api/v1/banks": "begins the bank again",
    "PATCH /api/v1/banks": "changes when it expires",
    "PATCH /api/v1/banks/{bank:name}": "changes when it expires",
    "POST /api/v1/commands": "each action is tried below",
    "POST /portal/command": "the same actions in another form",
}
#: What each action is refused by, and its fields beside the bank.
COMMANDS: dict[str, tuple[str, dict[str, Any]]] = {
    "updateAgentMemoryBank": (REFUSED, {"background": "Camping"}),
    "deleteAgentMemoryBank": (REFUSED, {}),
    "createAgentMemoryDoc": (REFUSED, {"originalText": "A third manual"}),
    "deleteAgentMemoryDoc": (UNSEEN, {"docId": "doc"}),
    "retainAgentMemoryUnit": (REFUSED, {"content": "The rope is long"}),
    "deleteAgentMemoryUnit": (REFUSED, {"unitId": "unit"}),
    "deleteAgentMemoryReflection": (REFUSED, {"reflectionId": "unit"}),
    "createAgentMemoryDirective": (REFUSED, {"name": "form", "content": "Write letters.", "priority": 0}),
    "updateAgentMemoryDirective": (REFUSED, {"directiveId": "directive", "name": "tone", "content": "Be kind."}),
    "deleteAgentMemoryDirective": (REFUSED, {"directiveId": "directive"}),
    "createAgentMemoryEntity": (REFUSED, {"canonicalName": "Rope"}),
    "updateAgentMemoryEntity": (REFUSED, {"entityId": "entity", "canonicalName": "Tents"}),
    "deleteAgentMemoryEntity": (REFUSED, {"entityId": "entity"}),
    "linkAgentMemoryUnitEntity": (REFUSED, {"unitId": "other", "entityId": "entity"}),
    "unlinkAgentMemoryUnitEntity": (REFUSED, {"unitId": "unit", "entityId": "entity"}),
    "createAgentMemoryLink": (REFUSED, {"fromUnitId": "other", "toUnitId": "unit", "linkType": "causes"}),
    "updateAgentMemoryLink": (
        REFUSED,
        {"fromUnitId": "unit", "toUnitId": "other", "linkType": "causes", "weight": 0.5},
    ),
    "deleteAgentMemoryLink": (REFUSED, {"fromUnitId": "unit", "toUnitId": "other", "linkType": "causes"}),
    "createAgentSessionHistory": (REFUSED, {"sessionId": str(UUID(int=5))}),
    "appendAgentSessionHistory": (
        REFUSED,
        {"sessionId": str(UUID(int=4)), "messages": [{"role": "user", "content": "x"}]},
    ),
    "compactAgentSessionHistory": (REFUSED, {"sessionId": str(UUID(int=4)), "messages": []}),
    "deleteAgentSessionHistory": (REFUSED, {"sessionId": str(UUID(int=4))}),
}


async def do(tenant: Tenant, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    reply = await tenant.http.request(method, f"{V1}/{path}", json=body)
    assert reply.status_code < 300, reply.text
    return dict(reply.json()) if reply.content else {}


async def command(tenant: Tenant, action: str, **fields: Any) -> dict[str, Any]:
    done = await do(tenant, "POST", "commands", {"action": action, "data": {"bankId": BANK, **fields}})
    return dict(done["result"])


async def fill(world: World, tenant: Tenant) -> dict[str, str]:
    """Create a bank that expires in an hour, with one thing of each kind; return their ids."""
    ends = (world.clock() + timedelta(hours=1)).isoformat()
    await do(tenant, "POST", "banks", {"bank": BANK, "expires_at": ends})
    said = [{"role": "user", "content": "The tent is green"}, {"role": "assistant", "content": "Noted."}]
    await do(tenant, "POST", "turns", {"bank": BANK, "session_id": "s", "turn_id": "1", "messages": said})
    units = (await do(tenant, "GET", f"units?bank={BANK}"))["units"]
    ids = {"unit": units[0]["unit_id"], "other": units[1]["unit_id"], "entity": str(UUID(int=3)), "bank": BANK}
    await do(tenant, "PUT", f"units/{ids['unit']}/pin?bank={BANK}")
    await do(tenant, "POST", "memories", {"bank": BANK, "id": "m", "content": "The tent is green"})
    ids["doc"] = (await do(tenant, "POST", "docs", {"bank": BANK, "content": "A manual"}))["doc_id"]
    tone = {"bank": BANK, "name": "tone", "content": "Answer briefly."}
    ids["directive"] = (await do(tenant, "POST", "directives", tone))["directive_id"]
    link = {"bank": BANK, "from_unit_id": ids["unit"], "to_unit_id": ids["other"], "link_type": "causes"}
    await do(tenant, "POST", "links", link)
    await command(tenant, "createAgentMemoryEntity", entityId=ids["entity"], canonicalName="Tent")
    await command(tenant, "linkAgentMemoryUnitEntity", unitId=ids["unit"], entityId=ids["entity"])
    await command(tenant, "createAgentSessionHistory", sessionId=str(UUID(int=4)))
    return ids


def name_things(fields: dict[str, Any], things: Mapping[str, Any]) -> dict[str, Any]:
    return {name: things.get(value, value) if isinstance(value, str) else value for name, value in fields.items()}


def test_every_writer_is_in_the_table(world: World) -> None:
    writing = {"POST", "PUT", "PATCH", "DELETE"}
    there = {
        f"{method} {route.path}"
        for route in world.app.routes
        for method in set(getattr(route, "methods", None) or ()) & writing
        if route.path.startswith((f"{V1}/", "/portal/"))
        and not route.path.startswith((f"{V1}/operator", f"{V1}/console"))
    }
    assert there == {" ".join(name.split(" ")[:2]) for name in ROUTES} | set(OTHERS)
    assert set(ACTIONS) == set(COMMANDS) | {"createAgentMemoryBank"}, "which begins the bank again"


async def test_nothing_is_written_into_a_bank_that_has_expired(world: World, ana: Tenant) -> None:
    ids = await fill(world, ana)
    host = identity.host_id(ana.host)
    place = {"host": host, "bank": identity.bank_id(host, BANK)}
    [before] = await world.sql(HEAD, **place)
    [lived] = await world.sql(LIVES, **place)
    world.clock.ahead = timedelta(hours=2)
    texts: dict[str, Any] = {
        "said": [{"role": "user", "content": "x"}],
        "items": [{"type": "message", "role": "user", "content": "x"}],
    }
    wrong, answers = list[str](), dict[str, str]()
    try:
        for name, (_, path, body) in ROUTES.items():
            place_of = {} if "{bank}" in path else {"bank": BANK}
            told = None if body is None else place_of | name_things(body, ids | texts)
            reply = await ana.http.request(name.split(" ")[0], f"{V1}/{path.format(**ids)}", json=told)
            answers[name] = f"{reply.status_code} {reply.json().get('error', {}).get('code', '')}"
        for action, (_, fields) in COMMANDS.items():
            data = {"bankId": BANK, **name_things(fields, ids)}
            reply = await ana.http.post(f"{V1}/commands", json={"action": action, "data": data})
            answers[action] = f"{reply.status_code} {reply.json().get('error', {}).get('code', '')}"
        expected = {name: one[0] for name, one in (ROUTES | COMMANDS).items()}
        wrong = [f"{name}: {answers[name]}, not {told}" for name, told in expected.items() if answers[name] != told]
    finally:
        world.clock.ahead = timedelta()
    assert wrong == []
    assert await world.sql(HEAD, **place) == [before]
    assert await world.sql(LIVES, **place) == [lived], "and nothing revived it"


@pytest.mark.parametrize("away", [timedelta(hours=-1), timedelta()])
async def test_a_bank_is_not_created_with_an_end_that_has_passed(world: World, ana: Tenant, away: timedelta) -> None:
    body = {"bank": "past", "expires_at": (world.clock() + away).isoformat()}
    reply = await ana.http.post(f"{V1}/banks", json=body)
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "INVALID_ARGUMENT")
    assert reply.json()["error"]["details"]["problems"][0]["field"] == "expires_at"
