"""POST /api/v1/turns, turns:batch and a turn's status, row by row of the contract."""

import asyncio
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest

from producers import fair_queue, metrics
from producers.service.intake import PIECE_CHARACTERS, PIECE_TURNS, _cut_pieces
from store.errors import StoreError
from store.identity import host_id
from store.ledger.stages import TURN_STAGES
from store.memory.turns import Appended, NewMessage, NewTurn, TurnStore
from tests.client.loopback import closed_port
from tests.producers.conftest import Tenant, World
from tests.workers.targets import hand_to

TURNS = "/api/v1/turns"
BATCH = "/api/v1/turns:batch"


async def test_a_turn_is_accepted_with_its_position(ana: Tenant, turn: dict[str, Any]) -> None:
    reply = await ana.http.post(TURNS, json=turn)
    assert reply.status_code == 201
    assert reply.json() == {"ok": True, "position": reply.json()["position"], "duplicate": False}
    assert reply.json()["position"] > 0
    assert len(reply.headers["x-request-id"]) == 32


@pytest.mark.law("L2")
async def test_the_same_turn_again_is_a_duplicate_with_the_first_position(ana: Tenant, turn: dict[str, Any]) -> None:
    first = (await ana.http.post(TURNS, json=turn)).json()
    again = await ana.http.post(TURNS, json=turn)
    assert again.status_code == 200
    assert again.json() == {"ok": True, "position": first["position"], "duplicate": True}


@pytest.mark.law("L2")
async def test_the_same_turn_with_another_body_is_a_conflict(ana: Tenant, turn: dict[str, Any]) -> None:
    await ana.http.post(TURNS, json=turn)
    reply = await ana.http.post(TURNS, json={**turn, "messages": turn["messages"][:1]})
    assert reply.status_code == 409
    error = reply.json()["error"]
    assert (error["code"], error["retryable"]) == ("TURN_CONFLICT", False)


@pytest.mark.law("L2")
async def test_of_many_at_once_one_is_first_and_no_other_is_new(
    world: World, ana: Tenant, turn: dict[str, Any]
) -> None:
    replies = await asyncio.gather(*(ana.http.post(TURNS, json=turn) for _ in range(12)))
    assert sorted({r.status_code for r in replies}) in ([201], [200, 201], [201, 409], [200, 201, 409])
    assert [r.status_code for r in replies].count(201) == 1
    for reply in replies:
        if reply.status_code == 409:
            assert reply.json()["error"]["code"] == "RESOURCE_BUSY"
            assert reply.json()["error"]["retryable"] is True
    known = await world.sql(
        "select count(*) from afterturn.agent_memory_unit_t where host_id ="
        " (select host_id from afterturn.host_t where name = :host)",
        host=ana.host,
    )
    assert known[0][0] == 2


async def test_first_turns_of_many_sessions_of_a_new_bank_are_all_accepted(ana: Tenant, turn: dict[str, Any]) -> None:
    told = [{**turn, "session_id": f"s{n}", "bank": "new"} for n in range(12)]
    replies = await asyncio.gather(*(ana.http.post(TURNS, json=one) for one in told))
    assert [reply.status_code for reply in replies] == [201] * 12


@pytest.mark.law("L8")
async def test_a_turn_with_and_without_its_echo_is_one_turn(ana: Tenant, turn: dict[str, Any]) -> None:
    await ana.http.post(TURNS, json=turn)
    reference = (await ana.http.post("/api/v1/recall", json={"query": "Lisbon"})).json()["reference"]
    reply = await ana.http.post(TURNS, json={**turn, "messages": [reference, *turn["messages"]]})
    assert reply.json()["duplicate"] is True


async def test_a_batch_answers_for_each_turn_in_order(ana: Tenant, turn: dict[str, Any]) -> None:
    await ana.http.post(TURNS, json={**turn, "turn_id": "old"})
    turns = [
        {**turn, "turn_id": "a"},
        {**turn, "turn_id": "old"},
        {**turn, "turn_id": "old", "metadata": {"other": "body"}},
        {**turn, "session_id": "a/b"},
        {**turn, "turn_id": "b", "colour": "red"},
        "no turn",
        {**turn, "turn_id": "large", "messages": [{"role": "user", "content": "x" * 300_000}]},
        {**turn, "turn_id": "b"},
    ]
    reply = await ana.http.post(BATCH, json={"turns": turns})
    assert reply.status_code == 200
    results = reply.json()["results"]
    outcomes = [result["error"]["code"] if not result["ok"] else result["duplicate"] for result in results]
    invalid = "INVALID_ARGUMENT"
    assert outcomes == [False, True, "TURN_CONFLICT", invalid, invalid, invalid, "PAYLOAD_TOO_LARGE", False]
    assert results[0]["position"] < results[-1]["position"]
    assert "session_id" in results[3]["error"]["message"]


async def test_a_batch_is_written_in_pieces_between_which_other_calls_go(
    ana: Tenant, turn: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces, between, append = list[int](), list[float](), TurnStore.append

    async def appended(self: TurnStore, host: UUID, turns: Sequence[NewTurn]) -> list[Appended | StoreError]:
        pieces.append(len(turns))
        return await append(self, host, turns)

    async def without_slot(seconds: float) -> None:
        between.append(seconds)
        if len(between) == 3:
            raise fair_queue.refuse_overload("others are served")

    monkeypatch.setattr(TurnStore, "append", appended)
    monkeypatch.setattr(fair_queue, "sleep_without_slot", without_slot)
    batch = {"turns": [{**turn, "turn_id": str(n)} for n in range(4 * PIECE_TURNS)]}
    reply = await ana.http.post(BATCH, json=batch)
    results = reply.json()["results"]
    assert (reply.status_code, pieces) == (200, [PIECE_TURNS] * 3)
    assert [one["ok"] for one in results] == [True] * 3 * PIECE_TURNS + [False] * PIECE_TURNS
    assert {(one["error"]["code"], one["error"]["retryable"]) for one in results if not one["ok"]} == {
        ("RATE_LIMITED", True)
    }


async def test_pieces_are_cut_by_their_texts_too(ana: Tenant, turn: dict[str, Any]) -> None:
    said = [{"role": "user", "content": "word " * (PIECE_CHARACTERS // 15)}]
    turns = [NewTurn("home", "s", str(n), (NewMessage("user", said[0]["content"]),)) for n in range(7)]
    assert [len(piece) for piece in _cut_pieces(turns)] == [3, 3, 1]
    batch = {"turns": [{**turn, "turn_id": str(n), "messages": said} for n in range(7)]}
    results = (await ana.http.post(BATCH, json=batch)).json()["results"]
    assert [one["ok"] for one in results] == [True] * 7


@pytest.mark.parametrize(
    "body", [[], {}, {"turns": []}, {"turns": {}}, {"turns": None}, {"turns": [{}] * 501}, {"turns": [{}], "more": 1}]
)
async def test_what_is_no_batch_is_refused_whole(ana: Tenant, body: Any) -> None:
    reply = await ana.http.post(BATCH, json=body)
    assert reply.status_code == 422
    assert reply.json()["error"]["code"] == "INVALID_ARGUMENT"


async def test_a_turns_status_names_all_stages(world: World, ana: Tenant, turn: dict[str, Any]) -> None:
    await hand_to(world.database, host_id(ana.host), closed_port(), user=ana.host)
    accepted = (await ana.http.post(TURNS, json={**turn, "turn_id": "a/b c?/ü", "bank": "b/1"})).json()
    reply = await ana.http.get(f"{TURNS}/monday/a/b%20c%3F/%C3%BC", params={"bank": "b/1"})
    assert reply.status_code == 200
    status = reply.json()
    assert status["position"] == accepted["position"]
    assert set(status["stages"]) == set(TURN_STAGES)
    assert {stage["status"] for stage in status["stages"].values()} == {"pending"}
    assert set(status["stages"]["gateway"]) == {"status", "attempts", "updated_at", "error"}


@pytest.mark.parametrize("bank, turn_id", [("b/1", "a/b c?/\u00fc"), ("two\nlines\n", "a\nb/c\n"), ("a\u2028b", " ")])
async def test_what_was_accepted_by_a_name_is_asked_for_by_it(
    ana: Tenant, turn: dict[str, Any], bank: str, turn_id: str
) -> None:
    accepted = (await ana.http.post(TURNS, json={**turn, "turn_id": turn_id, "bank": bank})).json()
    status = await ana.http.get(f"{TURNS}/monday/{quote(turn_id, safe='/')}", params={"bank": bank})
    assert status.json()["position"] == accepted["position"]
    freshness = await ana.http.get(f"/api/v1/banks/{quote(bank)}/freshness")
    assert freshness.json()["position"] == accepted["position"]
    changed = await ana.http.patch(f"/api/v1/banks/{quote(bank)}", json={"language": "de"})
    assert changed.json()["bank"] == bank


async def test_so_much_of_a_turn_is_shown_as_is_asked_for(ana: Tenant) -> None:
    picture = [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}]
    said = [{"role": "user", "content": text} for text in ("äö" * 50, "short", picture)]
    body = {"session_id": "s", "turn_id": "1", "messages": said}
    assert (await ana.http.post("/api/v1/turns", json=body)).status_code == 201
    for path, names in (("/api/v1/turns/s/1", {}), ("/api/v1/turns", {"session_id": "s", "turn_id": "1"})):
        whole = (await ana.http.get(path, params=names)).json()
        assert (len(whole["messages"]), whole["more_messages"], whole["messages"][0]["cut"]) == (3, False, False)
        first = (await ana.http.get(path, params={**names, "messages": 1, "characters": 3})).json()
        assert ([one["content"] for one in first["messages"]], first["more_messages"]) == (["äöä"], True)
        assert first["messages"][0]["cut"] is True
        rest = (await ana.http.get(path, params={**names, "from_ordinal": 1, "characters": 100})).json()
        assert [(one["ordinal"], one["cut"]) for one in rest["messages"]] == [(1, False), (2, True)]
        assert [set(part) for part in rest["messages"][1]["parts"]] == [{"type"}] * len(rest["messages"][1]["parts"])
        assert (await ana.http.get(path, params={**names, "messages": 0})).json()["messages"] == []
        assert (await ana.http.get(path, params={**names, "characters": 0})).status_code == 422
    assert (await ana.http.get("/api/v1/turns", params={"session_id": "s", "characters": 3})).status_code == 422


@pytest.mark.law("L6")
async def test_a_turn_is_found_by_the_id_that_its_work_has(world: World, ana: Tenant, turn: dict[str, Any]) -> None:
    private = await world.tenant(ana.host, user="rosa")
    said = {**turn, "bank": "~rosa/trips"}
    assert (await private.http.post("/api/v1/turns", json=said)).status_code == 201
    assert (await ana.http.post("/api/v1/turns", json=turn)).status_code == 201
    names = {"session_id": turn["session_id"], "turn_id": turn["turn_id"]}
    shown = (await ana.http.get("/api/v1/turns", params=names)).json()
    hers = (await ana.http.get("/api/v1/turns", params={**names, "bank": said["bank"]})).json()
    place = f"/api/v1/turns/{shown['id']}"
    assert (await ana.http.get(place)).json() == {"bank": "default", **names}
    assert (await private.http.get(f"/api/v1/turns/{hers['id']}")).json() == {"bank": said["bank"], **names}
    other, another = await world.tenant(), await world.tenant(ana.host, user="tom")
    assert (await other.http.get(place)).status_code == 404
    assert (await another.http.get(f"/api/v1/turns/{hers['id']}")).status_code == 404
    for unit in shown["messages"]:
        assert (await ana.http.delete(f"/api/v1/units/{unit['unit_id']}")).status_code in {200, 204}
    assert (await ana.http.get(place)).status_code == 404, "nothing of it is remembered"
    for one in (private, other, another):
        await one.http.aclose()


async def test_a_turn_that_wants_no_gateway_skips_it(world: World, ana: Tenant, turn: dict[str, Any]) -> None:
    await hand_to(world.database, host_id(ana.host), closed_port(), user=ana.host)
    await ana.http.post(TURNS, json={**turn, "gateway": False})
    assert (await ana.http.get(f"{TURNS}/monday/1")).json()["stages"]["gateway"]["status"] == "skipped"


async def test_a_failed_stage_shows_its_category(world: World, ana: Tenant, turn: dict[str, Any]) -> None:
    await hand_to(world.database, host_id(ana.host), closed_port(), user=ana.host)
    await ana.http.post(TURNS, json=turn)
    await world.sql(
        "update afterturn.ledger_t set status = 'add_failed', error_category = 'timeout', error_reason = 'no answer'"
        " where stage = 'gateway' and host_id = (select host_id from afterturn.host_t where name = :host)",
        host=ana.host,
    )
    gateway = (await ana.http.get(f"{TURNS}/monday/1")).json()["stages"]["gateway"]
    assert (gateway["status"], gateway["error"]) == ("dead", {"category": "timeout", "reason": "no answer"})


async def test_an_unknown_turn_is_not_found(ana: Tenant) -> None:
    reply = await ana.http.get(f"{TURNS}/monday/nothing")
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    "query", ["?bnak=x", "?bank=a&bank=b", "?bank=", "?bank=" + "x" * 257, "?bank=%ff", "?bank=%ed%a0%80"]
)
async def test_wrong_parameters_are_refused(ana: Tenant, query: str) -> None:
    assert (await ana.http.get(f"{TURNS}/monday/1{query}")).status_code == 422


async def test_every_door_counts_how_a_turn_ended(ana: Tenant, turn: dict[str, Any]) -> None:
    before = _counts()
    await ana.http.post(TURNS, json=turn)
    await ana.http.post(TURNS, json=turn)
    await ana.http.post(BATCH, json={"turns": [{**turn, "metadata": {"a": "b"}}, {}, {**turn, "turn_id": "2"}]})
    grown = {status: count - before[status] for status, count in _counts().items()}
    assert grown == {"ok": 2, "duplicate": 1, "conflict": 1, "busy": 0, "error": 1}


def _counts() -> dict[str, float]:
    return {status: metrics.TURNS_ADDED.labels(status)._value.get() for status in metrics.STATUSES}


@pytest.mark.parametrize("name", [".", "..", "a/../b", "a//b", "/", "%2e", "?#&="])
async def test_a_name_that_clients_would_rewrite_within_a_path_is_asked_for_in_the_query(
    ana: Tenant, turn: dict[str, Any], name: str
) -> None:
    named = {**turn, "bank": name, "turn_id": name}
    position = (await ana.http.post(TURNS, json=named)).json()["position"]
    place = {"bank": name, "session_id": turn["session_id"], "turn_id": name}
    assert (await ana.http.get(TURNS, params=place)).json()["position"] == position
    fresh = await ana.http.get("/api/v1/freshness", params={"bank": name, "position": position})
    assert fresh.json()["position"] >= position
    changed = await ana.http.patch("/api/v1/banks", params={"bank": name}, json={"language": "de"})
    assert (changed.json()["bank"], changed.json()["language"]) == (name, "de")


async def test_what_is_asked_for_in_the_query_must_be_named_there(ana: Tenant) -> None:
    for method, path in (("GET", TURNS), ("GET", "/api/v1/freshness"), ("PATCH", "/api/v1/banks")):
        reply = await ana.http.request(method, path, json={"language": "de"} if method == "PATCH" else None)
        assert (reply.status_code, reply.json()["error"]["code"]) == (422, "INVALID_ARGUMENT")
