"""What has ended is in no answer over HTTP, whether or not a worker has seen that; nor is a bank that has."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from store import identity
from store.maintenance.ending import ExpiryTask
from tests.producers.conftest import Tenant, World

HOUR = timedelta(hours=1)


@pytest.fixture
def at(world: World) -> Iterator[Callable[[timedelta], str]]:
    """Return a moment so far from now, as text; the clock is put right at the end."""

    def moment(away: timedelta) -> str:
        return (world.clock() + away).isoformat()

    yield moment
    world.clock.ahead = timedelta()


async def recalled(tenant: Tenant, query: str, **more: Any) -> list[str]:
    answer = await tenant.http.post("/api/v1/recall", json={"query": query, **more})
    assert answer.status_code == 200
    return sorted(one["text"] for one in answer.json()["results"])


async def test_what_has_ended_is_in_no_answer_and_stands_in_what_was_known_before(
    world: World, ana: Tenant, at: Callable[[timedelta], str]
) -> None:
    ends, before = at(HOUR), at(timedelta(minutes=1))
    said = {"session_id": "s", "messages": [{"role": "user", "content": "The gate opens with a blue card"}]}
    for turn, more in (("ends", {"expires_at": ends}), ("lasts", {})):
        answer = await ana.http.post("/api/v1/turns", json={**said, **more, "turn_id": turn})
        assert answer.status_code == 201
    memory = {"id": "gate", "content": "The gate key is blue", "pinned": True, "expires_at": ends}
    unit = (await ana.http.post("/api/v1/memories", json=memory)).json()["unit_id"]
    document = {"content": "Gate manual: the blue button opens", "title": "Gate", "expires_at": ends}
    doc = (await ana.http.post("/api/v1/docs", json=document)).json()["doc_id"]
    everything = [
        "Gate manual: the blue button opens",
        "The gate key is blue",
        "The gate opens with a blue card",
    ]
    assert await recalled(ana, "blue gate") == everything
    assert (await ana.http.get(f"/api/v1/units/{unit}")).json()["expires_at"] is not None
    world.clock.ahead = 2 * HOUR
    assert await recalled(ana, "blue gate") == ["The gate opens with a blue card"]
    assert await recalled(ana, "blue gate", session_id="s", kinds=["world"]) == []
    assert await recalled(ana, "blue gate", as_of=before) == everything
    for path in (f"units/{unit}", "memories/gate", f"docs/{doc}"):
        assert (await ana.http.get(f"/api/v1/{path}")).status_code == 404
    assert (await ana.http.get("/api/v1/docs")).json()["docs"] == []
    asked = {
        "session_id": "s",
        "turn_id": "next",
        "current_input": [{"type": "message", "role": "user", "content": ""}],
    }
    shown = (await ana.http.post("/api/v1/turns/before", json=asked)).json()["input_items"]
    assert [item for item in shown if "blue card" in str(item)] == shown[:1]
    # What ended may come again.
    assert (await ana.http.post("/api/v1/memories", json={**memory, "expires_at": at(HOUR)})).status_code == 200
    assert (await ana.http.post("/api/v1/docs", json={**document, "expires_at": at(HOUR)})).status_code == 201
    assert await recalled(ana, "blue gate") == everything


async def test_a_bank_that_has_ended_answers_nothing_and_is_there_again_with_another_end(
    world: World, ana: Tenant, at: Callable[[timedelta], str]
) -> None:
    bank = {"bank": "trip", "expires_at": at(HOUR)}
    assert (await ana.http.post("/api/v1/banks", json=bank)).status_code == 201
    memory = await ana.http.post("/api/v1/memories", json={"bank": "trip", "id": "m", "content": "The tent is green"})
    unit = memory.json()["unit_id"]
    directive = {"bank": "trip", "name": "tone", "content": "Answer briefly."}
    assert (await ana.http.post("/api/v1/directives", json=directive)).status_code == 201
    assert await recalled(ana, "green tent", bank="trip") == ["The tent is green"]
    world.clock.ahead = 2 * HOUR
    assert await recalled(ana, "green tent", bank="trip") == []
    for path in (f"units/{unit}", "memories/m"):
        assert (await ana.http.get(f"/api/v1/{path}", params={"bank": "trip"})).status_code == 404
    assert (await ana.http.get("/api/v1/directives", params={"bank": "trip"})).json()["directives"] == []
    assert (await ana.http.get("/api/v1/banks")).json()["banks"] == []
    again = await ana.http.post("/api/v1/banks", json={"bank": "trip", "expires_at": at(HOUR)})
    assert (again.status_code, again.json()["created"]) == (200, False)
    assert await recalled(ana, "green tent", bank="trip") == ["The tent is green"]
    changed = await ana.http.patch("/api/v1/banks/trip", json={"expires_at": None})
    assert (changed.status_code, changed.json()["expires_at"]) == (200, None)
    world.clock.ahead = 24 * HOUR
    assert await recalled(ana, "green tent", bank="trip") == ["The tent is green"]
    assert (await ana.http.patch("/api/v1/banks/trip", json={})).status_code == 422


async def test_nothing_new_is_accepted_for_a_bank_that_has_expired_until_it_lives_again(
    world: World, ana: Tenant, turn: dict[str, Any], at: Callable[[timedelta], str]
) -> None:
    await ana.http.post("/api/v1/banks", json={"bank": "trip", "expires_at": at(HOUR)})
    await ana.http.post("/api/v1/banks", json={"bank": str(UUID(int=9)), "expires_at": at(HOUR)})
    said = {**turn, "bank": "trip"}
    assert (await ana.http.post("/api/v1/turns", json=said)).status_code == 201
    writes: tuple[tuple[str, dict[str, Any]], ...] = (
        ("turns", {**said, "turn_id": "2"}),
        ("turns", {**said, "session_id": "other"}),
        ("memories", {"bank": "trip", "content": "The tent is green"}),
        ("docs", {"bank": "trip", "content": "The tent is green"}),
    )

    async def write(path: str, body: dict[str, Any]) -> tuple[int, str]:
        reply = await ana.http.post(f"/api/v1/{path}", json=body)
        return reply.status_code, reply.json().get("error", {}).get("code", "")

    world.clock.ahead = 2 * HOUR
    assert {await write(*one) for one in writes} == {(409, "TURN_ENDED")}
    batch = await ana.http.post("/api/v1/turns:batch", json={"turns": [writes[0][1], {**turn, "bank": "home"}]})
    refused, accepted = batch.json()["results"]
    assert (refused["error"]["code"], accepted["ok"]) == ("TURN_ENDED", True)
    told = {"action": "retainAgentMemoryUnit", "data": {"bankId": str(UUID(int=9)), "content": "x"}}
    reply = await ana.http.post("/api/v1/commands", json=told)
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "TURN_ENDED")
    assert (await ana.http.post("/api/v1/banks", json={"bank": "trip"})).status_code == 200
    assert {(await write(*one))[0] for one in writes} == {201}
    assert "The tent is green" in await recalled(ana, "green tent", bank="trip")


async def test_where_most_of_the_best_have_ended_as_many_results_come_back_as_were_asked_for(
    world: World, ana: Tenant, at: Callable[[timedelta], str]
) -> None:
    ends = {"expires_at": at(HOUR)}
    turns = [
        {
            "session_id": f"s{n}",
            "turn_id": "1",
            "messages": [{"role": "user", "content": f"the red boat sails again, number {n}"}],
            **(ends if n < 95 else {}),
        }
        for n in range(100)
    ] + [
        {"session_id": f"o{n}", "turn_id": "1", "messages": [{"role": "user", "content": f"a boat, {n} miles away"}]}
        for n in range(5)
    ]
    assert (await ana.http.post("/api/v1/turns:batch", json={"turns": turns})).status_code == 200
    world.clock.ahead = 2 * HOUR
    found = await recalled(ana, "the red boat sails again", k=10)
    assert len(found) == 10
    assert {text for text in found if "sails" in text} == {
        f"the red boat sails again, number {n}" for n in range(95, 100)
    }


async def test_a_turn_sent_again_after_its_bank_ended_is_refused_and_revives_nothing(
    world: World, ana: Tenant, turn: dict[str, Any], at: Callable[[timedelta], str]
) -> None:
    said = {**turn, "bank": "trip"}
    await ana.http.post("/api/v1/banks", json={"bank": "trip", "expires_at": at(HOUR)})
    assert (await ana.http.post("/api/v1/turns", json=said)).status_code == 201
    host, bank = identity.host_id(ana.host), identity.bank_id(identity.host_id(ana.host), "trip")

    async def send_again() -> tuple[int, str]:
        reply = await ana.http.post("/api/v1/turns", json=said)
        return reply.status_code, reply.json()["error"]["code"]

    async def is_alive() -> list[bool]:
        rows = await world.sql("select active from afterturn.agent_memory_bank_t where bank_id = :bank", bank=bank)
        return [row.active for row in rows]

    expired = "update afterturn.agent_memory_bank_t set expires_at = now() - interval '1 minute' where bank_id = :bank"
    await world.sql(expired, bank=bank)
    assert await send_again() == (409, "TURN_ENDED")
    found = await ExpiryTask(world.database, world.clock).find_ending(host, UUID(int=0))
    assert found is not None
    await ExpiryTask(world.database, world.clock).end(host, found)
    for _ in range(2):
        assert (await send_again(), await is_alive()) == ((409, "TURN_ENDED"), [False])
    new = {**said, "turn_id": "2"}
    assert (await ana.http.post("/api/v1/turns", json=new)).status_code == 201, "another turn begins the bank anew"
    assert (await send_again(), await is_alive()) == ((409, "TURN_ENDED"), [True])
    again = await ana.http.post("/api/v1/turns", json=new)
    assert (again.status_code, again.json()["duplicate"]) == (200, True)
    units = await ana.http.get("/api/v1/units?bank=trip")
    assert {unit["turn_id"] for unit in units.json()["units"]} == {"2"}
