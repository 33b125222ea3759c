"""Erasing over the API: what a key may have erased, the receipt, and that nothing comes back."""

from typing import Any
from uuid import uuid4

import pytest

from tests.patience import until
from tests.producers.conftest import Tenant, World

pytestmark = pytest.mark.law("L11")

Turn = dict[str, Any]


async def unit_of(ana: Tenant, words: str = "Lisbon") -> str:
    found = await ana.http.post("/api/v1/recall", json={"query": words})
    return str(found.json()["results"][0]["unit_id"])


async def erase(ana: Tenant, **asked: Any) -> Any:
    return await ana.http.post("/api/v1/erasures", json=asked)


async def test_an_erased_unit_is_gone_and_its_receipt_counts_without_content(ana: Tenant, turn: Turn) -> None:
    await ana.http.post("/api/v1/turns", json=turn)
    unit = await unit_of(ana)
    answer = await ana.http.delete(f"/api/v1/units/{unit}", params={"erase": "true"})
    assert answer.status_code == 200
    receipt = answer.json()
    assert (receipt["status"], receipt["kind"], receipt["counts"]["messages"]) == ("done", "unit", 1)
    assert receipt["unreached"]["elsewhere"]
    assert "Lisbon" not in answer.text
    assert (await ana.http.get(f"/api/v1/units/{unit}")).status_code == 404
    again = await ana.http.get(f"/api/v1/erasures/{receipt['erasure_id']}")
    assert again.json() == receipt
    assert (await ana.http.get(f"/api/v1/erasures/{uuid4()}")).status_code == 404


async def test_erasing_twice_is_erasing_once(ana: Tenant, turn: Turn) -> None:
    await ana.http.post("/api/v1/turns", json=turn)
    unit = await unit_of(ana)
    first = (await erase(ana, kind="unit", unit_id=unit)).json()
    second = (await erase(ana, kind="unit", unit_id=unit)).json()
    assert first["counts"]["messages"] == 1
    assert (second["status"], second["counts"]) == ("done", {})


async def test_a_turn_that_was_erased_is_refused_as_erased_whatever_its_body(ana: Tenant, turn: Turn) -> None:
    await ana.http.post("/api/v1/turns", json=turn)
    assert (await ana.http.post("/api/v1/turns", json=turn)).json()["duplicate"] is True
    await erase(ana, kind="session", session_id="monday")
    other = {**turn, "messages": [{"role": "user", "content": "something else"}]}
    for body in (turn, other):
        answer = await ana.http.post("/api/v1/turns", json=body)
        assert answer.status_code == 409
        assert answer.json()["error"]["code"] == "TURN_ERASED"
        assert "another turn_id or session_id" in answer.json()["error"]["message"]
    assert (await ana.http.post("/api/v1/recall", json={"query": "Lisbon"})).json()["results"] == []


async def test_a_new_turn_of_an_erased_session_begins_it_anew(ana: Tenant, turn: Turn) -> None:
    await ana.http.post("/api/v1/turns", json=turn)
    await erase(ana, kind="session", session_id="monday")
    later = await ana.http.post("/api/v1/turns", json={**turn, "turn_id": "2"})
    assert later.status_code == 201
    found = (await ana.http.post("/api/v1/recall", json={"query": "Lisbon"})).json()["results"]
    assert {one["turn_id"] for one in found} == {"2"}


async def test_the_work_on_an_erased_turn_ends(ana: Tenant, turn: Turn) -> None:
    await ana.http.post("/api/v1/turns", json=turn)
    await erase(ana, kind="session", session_id="monday")
    stages = (await ana.http.get("/api/v1/turns/monday/1")).json()["stages"]
    assert {stage["status"] for stage in stages.values()} == {"skipped"}
    assert stages["extraction"]["error"]["category"] == "erased"


async def test_a_bank_and_a_user_can_be_erased(ana: Tenant, turn: Turn) -> None:
    await ana.http.post("/api/v1/turns", json={**turn, "user_id": "ana"})
    await ana.http.post("/api/v1/turns", json={**turn, "user_id": "ana", "bank": "work"})
    await ana.http.post("/api/v1/turns", json={**turn, "turn_id": "2", "bank": "work"})
    assert (await erase(ana, kind="user", user_id="ana")).json()["counts"]["turns"] == 2
    assert (await erase(ana, kind="bank", bank="work")).json()["counts"]["banks"] == 1
    for bank in ("default", "work"):
        found = await ana.http.post("/api/v1/recall", json={"query": "Lisbon", "bank": bank})
        assert found.json()["results"] == []
    assert "work" not in (await ana.http.get("/api/v1/banks")).text


async def test_what_is_absent_and_what_is_foreign_look_the_same(world: World, ana: Tenant, turn: Turn) -> None:
    await ana.http.post("/api/v1/turns", json={**turn, "user_id": "ana"})
    unit = await unit_of(ana)
    receipt = (await erase(ana, kind="session", session_id="monday")).json()
    stranger = await world.tenant()
    for asked in (
        {"kind": "unit", "unit_id": unit},
        {"kind": "unit", "unit_id": str(uuid4())},
        {"kind": "unit", "unit_id": "no id"},
        {"kind": "session", "session_id": "monday"},
        {"kind": "user", "user_id": "ana"},
        {"kind": "bank", "bank": "default"},
    ):
        assert (await erase(stranger, **asked)).status_code == 404, asked
    assert (await stranger.http.get(f"/api/v1/erasures/{receipt['erasure_id']}")).status_code == 404


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"kind": "bank"},
        {"kind": "unit"},
        {"kind": "unit", "session_id": "monday"},
        {"kind": "unit", "unit_id": "x", "session_id": "monday"},
        {"kind": "user", "user_id": "ana", "bank": "default"},
        {"kind": "everything"},
    ],
)
async def test_a_request_that_does_not_name_one_thing_is_refused(ana: Tenant, asked: dict[str, str]) -> None:
    assert (await erase(ana, **asked)).status_code == 422


async def test_a_key_erases_within_its_reach_only(world: World, ana: Tenant, turn: Turn) -> None:
    await ana.http.post("/api/v1/turns", json={**turn, "user_id": "ana"})
    unit = await unit_of(ana)
    reader = await world.tenant(ana.host, write=False)
    elsewhere = await world.tenant(ana.host, banks=["work"])
    bob = await world.tenant(ana.host, user="bob")
    assert (await erase(reader, kind="unit", unit_id=unit)).status_code == 403
    assert (await erase(elsewhere, kind="unit", unit_id=unit)).status_code == 403
    assert (await erase(elsewhere, kind="user", user_id="ana")).status_code == 403
    assert (await erase(bob, kind="user", user_id="ana")).status_code == 403
    for asked in ({"kind": "unit", "unit_id": unit}, {"kind": "session", "session_id": "monday"}):
        assert (await erase(bob, **asked)).status_code in (403, 404)
    receipt = (await erase(ana, kind="unit", unit_id=unit)).json()
    assert (await elsewhere.http.get(f"/api/v1/erasures/{receipt['erasure_id']}")).status_code == 404


async def test_a_users_key_erases_what_its_user_said_and_opens_nothing_from_then_on(
    world: World, ana: Tenant, turn: Turn
) -> None:
    bob = await world.tenant(ana.host, user="bob")
    await bob.http.post("/api/v1/turns", json=turn)
    answer = await erase(bob, kind="user", user_id="bob")
    told = answer.json()
    assert (told["status"], [told["counts"][name] for name in ("turns", "banks", "keys")]) == ("done", [1, 1, 1])
    assert "labels of keys that are not the user's" in told["stays"]
    assert (await ana.http.get(f"/api/v1/erasures/{told['erasure_id']}")).json() == told

    async def refused() -> bool:
        return (await bob.http.get("/api/v1/banks")).status_code == 401

    await until(refused, "the key of the erased user opens nothing")
    assert "~bob" not in (await ana.http.get("/api/v1/banks")).text


async def test_who_pins_anothers_unit_and_erases_himself_takes_the_pin_alone_along(
    world: World, ana: Tenant, turn: Turn
) -> None:
    bob = await world.tenant(ana.host, user="bob")
    eva = await world.tenant(ana.host, user="eva", curate=True)
    assert (await ana.http.post("/api/v1/turns", json={**turn, "user_id": "ana"})).status_code == 201
    unit = await unit_of(ana)
    assert (await eva.http.put(f"/api/v1/units/{unit}/pin")).status_code == 200
    answer = await erase(eva, kind="user", user_id="eva")
    assert (answer.json()["status"], answer.json()["counts"]["versions"]) == ("done", 1)
    shown = (await bob.http.get(f"/api/v1/units/{unit}")).json()
    assert (shown["text"], shown["metadata"]) == ("We fly to Lisbon on Friday", {})
