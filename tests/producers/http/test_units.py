"""Units that are corrected and pinned over HTTP: at once, by whoever may write there, and only what is one's own."""

import asyncio
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.producers.conftest import Tenant, World

SAID = "We fly to Lisbon on Friday"
NEW = "We sail to Bergen in autumn"


async def unit_of(tenant: Tenant, turn: dict[str, Any], said: str = SAID) -> str:
    assert (await tenant.http.post("/api/v1/turns", json=turn)).status_code == 201
    [found] = [one for one in await recalled(tenant, said) if one["text"] == said]
    return str(found["unit_id"])


async def recalled(tenant: Tenant, query: str) -> list[dict[str, Any]]:
    answer = await tenant.http.post("/api/v1/recall", json={"query": query})
    results: list[dict[str, Any]] = answer.json()["results"]
    return results


async def test_a_corrected_unit_is_found_by_its_new_words_at_once_and_not_by_the_old(
    ana: Tenant, turn: dict[str, Any]
) -> None:
    unit = await unit_of(ana, turn)
    answer = await ana.http.patch(f"/api/v1/units/{unit}", json={"content": NEW})
    assert answer.status_code == 200
    told = answer.json()
    assert (told["ok"], told["unit_id"], told["changed"], told["facts_ended"]) == (True, unit, True, 0)
    best = (await recalled(ana, "sail to Bergen"))[0]
    assert (best["unit_id"], best["text"]) == (unit, NEW)
    assert {"dense", "lexical"} <= set(best["arms"])
    assert not [
        one for one in await recalled(ana, "Lisbon Friday") if one["unit_id"] == unit and "lexical" in one["arms"]
    ]
    assert SAID not in [one["text"] for one in await recalled(ana, SAID)]
    shown = (await ana.http.get(f"/api/v1/units/{unit}")).json()
    assert (shown["text"], shown["version"], shown["facts"]) == (NEW, 2, [])
    assert (shown["session_id"], shown["turn_id"], shown["role"]) == ("monday", "1", "user")
    again = (await ana.http.patch(f"/api/v1/units/{unit}", json={"content": NEW})).json()
    assert (again["changed"], again["facts_ended"]) == (False, 0)


async def test_a_unit_is_given_an_end_and_it_is_taken_away(world: World, ana: Tenant) -> None:
    said = "I live in Ghent."
    turn = {"session_id": "monday", "turn_id": "1", "user_id": "ana", "messages": [{"role": "user", "content": said}]}
    unit = await unit_of(ana, turn, said)
    at = f"/api/v1/units/{unit}"
    ends = (world.clock() + timedelta(days=2)).replace(microsecond=0)
    end = {"expires_at": ends.isoformat()}
    for wrong in ({**end, "content": NEW}, {}, {"version": 1}):
        assert (await ana.http.patch(at, json=wrong)).status_code == 422, wrong
    stale = await ana.http.patch(at, json={**end, "version": 7})
    assert (stale.status_code, stale.json()["error"]["code"]) == (409, "VERSION_CONFLICT")
    assert (await ana.http.patch(at, json={**end, "version": 1})).json()["changed"]
    shown = (await ana.http.get(at)).json()
    assert (datetime.fromisoformat(shown["expires_at"]), shown["text"], shown["version"]) == (ends, said, 2)
    assert unit in [one["unit_id"] for one in await recalled(ana, said)]
    assert not (await ana.http.patch(at, json=end)).json()["changed"]
    world.clock.ahead = timedelta(days=3)
    try:
        assert unit not in [one["unit_id"] for one in await recalled(ana, said)]
        assert (await ana.http.get(at)).status_code == 404
    finally:
        world.clock.ahead = timedelta()
    assert (await ana.http.patch(at, json={"expires_at": None})).json()["changed"]
    assert (await ana.http.get(at)).json()["expires_at"] is None
    assert unit in [one["unit_id"] for one in await recalled(ana, said)]


async def test_a_unit_shows_its_former_versions_and_its_pin(ana: Tenant, turn: dict[str, Any]) -> None:
    unit = await unit_of(ana, turn)
    first = (await ana.http.get(f"/api/v1/units/{unit}")).json()
    assert (first["pinned"], first["former"]) == (False, [])
    await ana.http.patch(f"/api/v1/units/{unit}", json={"content": NEW})
    await ana.http.put(f"/api/v1/units/{unit}/pin")
    await ana.http.patch(f"/api/v1/units/{unit}", json={"content": f"{NEW}, or in spring"})
    shown = (await ana.http.get(f"/api/v1/units/{unit}")).json()
    assert (shown["version"], shown["pinned"]) == (4, True)
    assert [(one["version"], one["text"], one["pinned"]) for one in shown["former"]] == [
        (3, NEW, True),
        (2, NEW, False),
        (1, SAID, False),
    ]
    await ana.http.post("/api/v1/erasures", json={"kind": "unit", "unit_id": unit})
    assert (await ana.http.get(f"/api/v1/units/{unit}")).status_code == 404


async def test_after_a_correction_the_parts_of_a_message_hold_the_new_text(ana: Tenant, turn: dict[str, Any]) -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://pictures.example/lake.png"}}
    content = [{"type": "text", "text": SAID}, picture]
    turn = {**turn, "messages": [{"role": "user", "content": content}]}
    assert (await ana.http.post("/api/v1/turns", json=turn)).status_code == 201
    asked = {name: turn[name] for name in ("session_id", "turn_id")}

    async def shown() -> dict[str, Any]:
        [message] = (await ana.http.get("/api/v1/turns", params=asked)).json()["messages"]
        return dict(message)

    told = await shown()
    assert told["parts"] == content
    assert (await ana.http.patch(f"/api/v1/units/{told['unit_id']}", json={"content": NEW})).status_code == 200
    told = await shown()
    assert (told["content"], told["parts"]) == (NEW, [{"type": "text", "text": NEW}, picture])


async def test_whoever_saw_an_older_version_is_refused(ana: Tenant, turn: dict[str, Any]) -> None:
    unit = await unit_of(ana, turn)
    bodies = [{"content": f"{NEW} {n}", "version": 1} for n in range(4)]
    answers = await asyncio.gather(*(ana.http.patch(f"/api/v1/units/{unit}", json=body) for body in bodies))
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
    error = next(answer.json()["error"] for answer in answers if answer.status_code == 409)
    assert (error["code"], error["retryable"]) == ("VERSION_CONFLICT", False)
    assert NEW not in error["message"]


async def test_while_its_turn_is_being_read_a_unit_is_busy(world: World, ana: Tenant, turn: dict[str, Any]) -> None:
    unit = await unit_of(ana, turn)
    await world.sql(
        "update afterturn.ledger_t set status = 'running' where stage = 'extraction' and turn_id ="
        " (select turn_id from afterturn.agent_memory_unit_t where unit_id = :unit)",
        unit=unit,
    )
    answer = await ana.http.patch(f"/api/v1/units/{unit}", json={"content": NEW})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["retryable"]) == (409, "RESOURCE_BUSY", True)


async def test_what_is_foreign_or_not_there_is_not_found(world: World, ana: Tenant, turn: dict[str, Any]) -> None:
    unit = await unit_of(ana, turn)
    bob = await world.tenant()
    for tenant, path in (
        (bob, unit),
        (ana, f"{unit}?bank=other"),
        (ana, str(uuid4())),
        (ana, "nothing"),
    ):
        answer = await tenant.http.patch(f"/api/v1/units/{path}", json={"content": NEW})
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NOT_FOUND")
    assert (await ana.http.get(f"/api/v1/units/{unit}")).json()["text"] == SAID


@pytest.mark.parametrize(
    "body, status",
    [
        ({}, 422),
        ({"content": "  \n"}, 422),
        ({"content": 7}, 422),
        ({"content": "a\x00b"}, 422),
        ({"content": NEW, "version": 0}, 422),
        ({"content": NEW, "kind": "world"}, 422),
        ([NEW], 422),
        ({"content": "x" * 262_145}, 413),
    ],
)
async def test_what_is_no_correction_is_refused(ana: Tenant, turn: dict[str, Any], body: Any, status: int) -> None:
    unit = await unit_of(ana, turn)
    assert (await ana.http.patch(f"/api/v1/units/{unit}", json=body)).status_code == status
    assert (await ana.http.get(f"/api/v1/units/{unit}")).json()["version"] == 1


async def test_forgetting_with_facts_says_how_many_and_only_what_is_ones_own_is_forgotten(
    world: World, ana: Tenant, turn: dict[str, Any]
) -> None:
    unit = await unit_of(ana, turn)
    bob = await world.tenant()
    path = f"/api/v1/units/{unit}?with_facts=true"
    assert (await bob.http.delete(path)).status_code == 404
    answer = await ana.http.delete(path)
    assert answer.status_code == 200
    told = answer.json()
    assert (told["ok"], told["unit_id"], told["facts_forgotten"]) == (True, unit, 0)
    assert (await ana.http.delete(path)).status_code == 404


async def test_a_pinned_unit_is_told_with_every_answer_until_it_is_unpinned(
    world: World, ana: Tenant, turn: dict[str, Any]
) -> None:
    unit = await unit_of(ana, turn)
    path = f"/api/v1/units/{unit}/pin"
    told = (await ana.http.put(path)).json()
    assert (told["ok"], told["unit_id"], told["changed"]) == (True, unit, True)
    assert (await ana.http.put(path)).json()["changed"] is False
    first = (await recalled(ana, "an umbrella"))[0]
    assert (first["unit_id"], "pinned" in first["arms"]) == (unit, True)
    assert (await ana.http.get(f"/api/v1/units/{unit}")).json()["metadata"]["pinned"] == "true"
    assert (await ana.http.delete(path)).json()["changed"] is True
    assert "pinned" not in [arm for one in await recalled(ana, "an umbrella") for arm in one["arms"]]
    bob, reader = await world.tenant(), await world.tenant(ana.host, write=False)
    assert (await bob.http.put(path)).status_code == 404
    assert (await reader.http.put(path)).status_code == 403
    assert (await ana.http.get(f"/api/v1/units/{unit}")).json()["version"] == 3
