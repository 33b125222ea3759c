"""Both clients against a real socket: what they send, what they make of the answers, what they repeat."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from afterturn_client import (
    MemoryReceipt,
    Message,
    NewTurn,
    RefusedTurn,
    TurnConflictError,
    TurnReceipt,
)
from afterturn_client.contract.turns import StageError
from starlette.responses import JSONResponse, Response

from tests.client.loopback import Loopback, Seen, everything_in
from tests.client.twins import ANSWER, FACT, FRESH, KEY, POORER, PROFILE, TEXT, Twin, accepted, error_body, twin

__all__ = ["twin"]

OWNER = {"user": None, "agent": None}
SOURCE = UUID("0b7c1f5e-52a7-5a3e-8d51-3f6a1c9b7e20")
UNIT = {
    "unit_id": "5f2d9a10-7c44-5be1-a0d3-92e4b8c61f77",
    "kind": "world",
    "text": TEXT,
    "origin": "extraction",
    "occurred_at": "2026-01-02T03:04:05+00:00",
    "position": 9,
    "metadata": {"channel": "web", "tags": ["trip"]},
}


async def test_a_turn_is_sent_as_the_contract_says(server: Loopback, twin: Twin) -> None:
    server.answers(accepted())
    client = twin.client(server.url + "/", bank="b")
    moment = datetime(2026, 1, 2, 5, 4, 5, tzinfo=timezone(timedelta(hours=2)))
    receipt = await twin(
        client,
        "add_turn",
        "s/1",
        [Message("user", TEXT, name="Ana", timestamp=moment), {"role": "assistant", "content": [{"type": "text"}]}],
        turn_id="t",
        user_id="u",
        occurred_at=1_700_000_000_000,
        metadata={"channel": "mail"},
        gateway=False,
    )
    assert receipt == TurnReceipt("s/1", "t", 42, duplicate=False)
    assert client.position == 42
    (seen,) = server.seen
    assert (seen.method, seen.path) == ("POST", "/api/v1/turns")
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.json == {
        "bank": "b",
        "session_id": "s/1",
        "turn_id": "t",
        "user_id": "u",
        "occurred_at": 1_700_000_000_000,
        "messages": [
            {"role": "user", "content": TEXT, "name": "Ana", "timestamp": "2026-01-02T03:04:05Z"},
            {"role": "assistant", "content": [{"type": "text"}]},
        ],
        "metadata": {"channel": "mail"},
        "gateway": False,
    }


async def test_a_document_is_sent_and_listed_with_what_is_said_of_it(server: Loopback, twin: Twin) -> None:
    listed = {
        "doc_id": str(SOURCE),
        "content_hash": None,
        "title": "house.md",
        "metadata": {"room": "cellar"},
        "occurred_at": "2024-05-03T10:00:00+00:00",
        "updated_at": "2026-01-02T03:04:05+00:00",
        "units": 3,
    }
    server.answers(
        JSONResponse({"ok": True, "doc_id": str(SOURCE), "position": 9, "duplicate": False, "units": 3}, 201),
        JSONResponse({"docs": [listed], "cursor": "1.f", "has_more": True}),
        JSONResponse({"docs": [], "cursor": None, "has_more": False}),
    )
    client = twin.client(server.url)
    at = datetime(2024, 5, 3, 10, tzinfo=UTC)
    said = {"title": "house.md", "metadata": {"room": "cellar"}, "occurred_at": at, "user_id": "ana"}
    assert (await twin(client, "add_document", TEXT, bank="b", **said)).units == 3
    page = await twin(client, "list_documents", bank="b", limit=1)
    [found] = page.docs
    assert (found.title, found.metadata, found.occurred_at, page.cursor) == ("house.md", {"room": "cellar"}, at, "1.f")
    assert (await twin(client, "list_documents", bank="b", limit=1, cursor=page.cursor)).cursor is None
    added, first, second = server.seen
    assert added.json == {"bank": "b", "content": TEXT, **said, "occurred_at": "2024-05-03T10:00:00Z"}
    assert (first.params, second.params) == ({"bank": "b", "limit": "1"}, {"bank": "b", "limit": "1", "cursor": "1.f"})


async def test_a_memory_is_kept_under_its_id_with_its_end_and_ended(server: Loopback, twin: Twin) -> None:
    told = {"ok": True, "id": "seat", "unit_id": str(SOURCE), "position": 9, "created": True, "changed": True}
    server.answers(JSONResponse(told, 201), Response(status_code=204))
    client, ends = twin.client(server.url), datetime(2030, 1, 1, tzinfo=UTC)
    kept = await twin(client, "keep_memory", TEXT, memory_id="seat", bank="b", expires_at=ends, pinned=True)
    assert kept == MemoryReceipt(id="seat", unit_id=SOURCE, position=9, created=True, changed=True)
    assert client.position == 9
    await twin(client, "end_memory", "seat", bank="b")
    written, ended = server.seen
    body = {"bank": "b", "content": TEXT, "id": "seat", "expires_at": "2030-01-01T00:00:00Z", "pinned": True}
    assert (written.path, written.json) == ("/api/v1/memories", body)
    assert (ended.method, ended.path, ended.params) == ("DELETE", "/api/v1/memories/seat", {"bank": "b"})


async def test_a_turn_without_a_name_keeps_the_one_it_is_given_through_every_retry(
    server: Loopback, twin: Twin
) -> None:
    server.answers(JSONResponse({}, 503), JSONResponse({}, 503), accepted(duplicate=True))
    receipt = await twin(twin.client(server.url), "add_turn", "s", [Message("user", "x")])
    assert len({seen.json["turn_id"] for seen in server.seen}) == 1
    assert len(server.seen) == 3
    assert receipt.turn_id == server.seen[0].json["turn_id"]
    assert receipt.duplicate
    other = await twin(twin.client(server.url), "add_turn", "s", [Message("user", "x")])
    assert other.turn_id != receipt.turn_id


async def test_a_batch_gives_one_result_a_turn_in_order(server: Loopback, twin: Twin) -> None:
    refused = {"ok": False, **error_body("TURN_CONFLICT")}
    results = [{"ok": True, "position": 7, "duplicate": False}, refused, {"ok": True, "position": 3, "duplicate": True}]
    server.answers(JSONResponse({"results": results}))
    client = twin.client(server.url)
    turns = [NewTurn("s", [Message("user", "x")], turn_id=str(number), bank="own") for number in range(3)]
    first, second, third = await twin(client, "add_turns", turns)
    assert first == TurnReceipt("s", "0", 7, duplicate=False)
    assert isinstance(second, RefusedTurn)
    assert isinstance(second.error, TurnConflictError)
    assert second.error.status == 409
    assert third == TurnReceipt("s", "2", 3, duplicate=True)
    assert client.position == 7
    assert server.seen[0].path == "/api/v1/turns:batch"
    assert [turn["bank"] for turn in server.seen[0].json["turns"]] == ["own"] * 3


@pytest.mark.parametrize(
    "session_id,turn_id,raw_path",
    [
        ("s 1", "a/b", "/api/v1/turns/s%201/a%2Fb"),
        ("s", "..", "/api/v1/turns/s/%2E%2E"),
        ("s", "a/../../x", "/api/v1/turns/s/a%2F..%2F..%2Fx"),
        ("s", "q?x=1#y%2F", "/api/v1/turns/s/q%3Fx%3D1%23y%252F"),
        ("ü", "ß", "/api/v1/turns/%C3%BC/%C3%9F"),
    ],
)
async def test_names_in_a_path_stay_names(
    server: Loopback, twin: Twin, session_id: str, turn_id: str, raw_path: str
) -> None:
    stage = {"status": "done", "attempts": 1, "updated_at": "2026-01-02T03:04:05Z", "error": None}
    dead = {**stage, "status": "dead", "attempts": 5, "error": {"category": "timeout"}}
    body = {
        "id": str(SOURCE),
        "position": 1,
        "accepted_at": "2026-01-02T03:04:05+00:00",
        "stages": {"gateway": dead, "embedding": stage},
    }
    server.answers(JSONResponse(body))
    status = await twin(twin.client(server.url), "turn_status", session_id, turn_id)
    (seen,) = server.seen
    assert seen.raw_path == raw_path
    assert seen.params == {"bank": "default"}
    assert status.accepted_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert status.stages["gateway"].error == StageError(category="timeout")
    assert status.settled


async def test_a_recall_sends_what_was_asked_and_types_the_answer(server: Loopback, twin: Twin) -> None:
    server.answers(JSONResponse(POORER))
    client = twin.client(server.url)
    answer = await twin(
        client, "recall", "who?", k=3, kinds=("world",), explain=True, as_of=datetime(2026, 1, 1, tzinfo=UTC)
    )
    assert server.seen[0].json == {
        "bank": "default",
        "query": "who?",
        "k": 3,
        "kinds": ["world"],
        "explain": True,
        "as_of": "2026-01-01T00:00:00Z",
    }
    (found,) = answer.results
    assert (found.text, found.score, found.arms, found.name) == (TEXT, 1.0, ("dense", "lexical"), None)
    assert answer.reference == {"role": "user", "content": TEXT}
    assert (answer.freshness.pending, answer.freshness.met, answer.took_ms) == (5, True, 3.5)
    assert (answer.degraded, answer.raw) == (("rerank: late",), POORER)


async def test_a_recall_after_a_write_asks_to_see_it(server: Loopback, twin: Twin) -> None:
    server.answer = lambda seen: accepted(42) if seen.path.endswith("turns") else JSONResponse(ANSWER)
    client = twin.client(server.url)
    await twin(client, "recall", "before")
    await twin(client, "add_turn", "s", [Message("user", "x")])
    await twin(client, "recall", "after")
    await twin(client, "recall", "own wish", min_position=7, wait_ms=5)
    before, _write, after, wish = (seen.json for seen in server.seen)
    assert "min_position" not in before
    assert (after["min_position"], after["wait_ms"]) == (42, 1000)
    assert (wish["min_position"], wish["wait_ms"]) == (7, 5)


async def test_reading_ones_writes_can_be_turned_off(server: Loopback, twin: Twin) -> None:
    server.answer = lambda seen: accepted(42) if seen.path.endswith("turns") else JSONResponse(ANSWER)
    client = twin.client(server.url, read_your_writes=False)
    await twin(client, "add_turn", "s", [Message("user", "x")])
    await twin(client, "recall", "after")
    assert "min_position" not in server.seen[1].json
    assert client.position == 42


async def test_a_recall_job_is_started_asked_and_let_go(server: Loopback, twin: Twin) -> None:
    def answer(seen: Seen) -> Response:
        if seen.method == "POST":
            return JSONResponse({"job_id": str(SOURCE), "expires_at": "2026-01-02T03:04:05Z"}, 202)
        return (
            Response(status_code=204) if seen.method == "DELETE" else JSONResponse({"status": "done", "result": ANSWER})
        )

    server.answer = answer
    client = twin.client(server.url)
    job = await twin(client, "start_recall", "who?", ttl_s=60, k=2)
    state = await twin(client, "recall_job", job.job_id, wait_ms=50)
    assert await twin(client, "cancel_recall", job.job_id) is None
    assert server.seen[0].json == {"bank": "default", "query": "who?", "k": 2, "ttl_s": 60}
    assert [seen.raw_path.partition("?")[0] for seen in server.seen[1:]] == [f"/api/v1/recall/jobs/{SOURCE}"] * 2
    assert server.seen[1].params == {"wait_ms": "50"}
    assert state.answer is not None
    assert state.answer.results[0].text == TEXT


async def test_freshness_units_and_health_have_their_paths(server: Loopback, twin: Twin) -> None:
    def answer(seen: Seen) -> Response:
        if seen.path.endswith("/pin"):
            changed = seen.method == "PUT"
            return JSONResponse(
                {"ok": True, "unit_id": str(SOURCE), "position": 11, "changed": changed, "facts_ended": 0}
            )
        if seen.method == "DELETE":
            with_facts = seen.params["with_facts"] == "true"
            return (
                JSONResponse({"unit_id": str(SOURCE), "position": 9, "facts_forgotten": 2})
                if with_facts
                else Response(status_code=204)
            )
        if seen.method == "PATCH":
            assert seen.json == {"content": "new words", "version": 2}
            return JSONResponse({"ok": True, "unit_id": str(SOURCE), "position": 9, "changed": True, "facts_ended": 1})
        if "freshness" in seen.path:
            return JSONResponse({name: FRESH[name] for name in list(FRESH)[:5]})
        return JSONResponse(
            {**UNIT, "status": "ready", "sources": [str(SOURCE)], "metadata": {"tags": ["a"], "x": "y"}}
        )

    server.answer = answer
    client = twin.client(server.url)
    fresh = await twin(client, "freshness", bank="a/b", position=3, wait_ms=9)
    unit = await twin(client, "get_unit", "u", bank="b")
    corrected = await twin(client, "correct_unit", "u", "new words", version=2)
    pinned = await twin(client, "pin_unit", "u", pinned=True, bank="b")
    unpinned = await twin(client, "pin_unit", "u", pinned=False)
    forgotten = await twin(client, "delete_unit", "u"), await twin(client, "delete_unit", "u", with_facts=False)
    health = await twin(client, "health")
    assert [seen.raw_path.partition("?")[0] for seen in server.seen] == [
        "/api/v1/banks/a%2Fb/freshness",
        "/api/v1/units/u",
        "/api/v1/units/u",
        "/api/v1/units/u/pin",
        "/api/v1/units/u/pin",
        "/api/v1/units/u",
        "/api/v1/units/u",
        "/health/ready",
    ]
    assert server.seen[0].params == {"position": "3", "wait_ms": "9"}
    assert (fresh.position, fresh.met) == (9, True)
    assert (unit.text, unit.sources) == (TEXT, (SOURCE,))
    assert unit.metadata == {"tags": ["a"], "x": "y"}
    assert [seen.method for seen in server.seen[3:5]] == ["PUT", "DELETE"]
    assert server.seen[3].params == {"bank": "b"}
    assert (pinned.position, pinned.changed, unpinned.changed) == (11, True, False)
    assert (corrected.position, corrected.changed, corrected.facts_ended) == (9, True, 1)
    assert health.status == "ready"
    assert forgotten == (2, 0)


async def test_a_unit_is_given_an_end_and_units_are_chosen(server: Loopback, twin: Twin) -> None:
    receipt = {"ok": True, "unit_id": str(SOURCE), "position": 9, "changed": True, "facts_ended": 1}
    page: dict[str, Any] = {"units": [], "cursor": None, "has_more": False}
    server.answers(*map(JSONResponse, (receipt, receipt, page)))
    client = twin.client(server.url)
    ended = await twin(client, "end_unit", "u", datetime(2026, 5, 1, 12, tzinfo=UTC), version=2)
    await twin(client, "end_unit", "u", None)
    await twin(client, "list_units", origin="memory", doc_id=UUID(int=7), user_id="ann")
    assert [seen.json for seen in server.seen[:2]] == [
        {"expires_at": "2026-05-01T12:00:00+00:00", "version": 2},
        {"expires_at": None},
    ]
    assert {seen.method for seen in server.seen[:2]} == {"PATCH"}
    chosen = {"origin": "memory", "doc_id": str(UUID(int=7)), "user_id": "ann"}
    assert chosen.items() <= server.seen[2].params.items()
    assert (ended.position, ended.facts_ended) == (9, 1)


@pytest.mark.parametrize(
    "body,status,expected",
    [
        ({"status": "ok"}, 200, "ready"),
        ({"status": "degraded", "reasons": ["old"]}, 200, "degraded"),
        ({"failing": ["postgresql"]}, 503, "failing"),
    ],
)
async def test_health_is_an_answer_also_when_it_is_bad(
    server: Loopback, twin: Twin, body: Mapping[str, Any], status: int, expected: str
) -> None:
    server.answers(JSONResponse(body, status))
    health = await twin(twin.client(server.url), "health")
    assert (health.status, health.raw) == (expected, body)
    assert len(server.seen) == 1


async def test_a_profile_is_asked_for_as_given_and_typed(server: Loopback, twin: Twin) -> None:
    before = {**FACT, "value": "Porto", "until": "2026-02-01T00:00:00Z", "history": []}
    server.answers(JSONResponse({**PROFILE, "facts": [{**FACT, "history": [before]}]}))
    client = twin.client(server.url)
    found = await twin(client, "profile", user_id="ana", history=True, limit=3)
    assert server.seen[0].params == {"user_id": "ana", "history": "true", "limit": "3"}
    [fact] = found.facts
    assert (fact.value, fact.stated, fact.until, fact.history[0].value) == ("Lisbon", 2, None, "Porto")
    assert (found.names, [one.name for one in found.beside], found.whole) == (("Ana",), ["Bo"], True)
    assert "Lisbon" not in repr(found)


async def test_a_banks_language_is_set_by_its_name(server: Loopback, twin: Twin) -> None:
    bank = {"bank": "a/b", "scope": "host", **OWNER, "language": "de", "settled": False, "expires_at": None}
    server.answers(JSONResponse({"ok": True, **bank}))
    told = await twin(twin.client(server.url), "set_language", "de", bank="a/b")
    assert (server.seen[0].method, server.seen[0].raw_path) == ("PATCH", "/api/v1/banks/a%2Fb")
    assert (server.seen[0].json, told.bank, told.language, told.settled) == ({"language": "de"}, "a/b", "de", False)


async def test_a_turn_is_prepared_and_kept_as_the_contract_says(server: Loopback, twin: Twin) -> None:
    asked = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": TEXT}]}]
    told = [{"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}]
    server.answers(JSONResponse({"ok": True, "project": "b", "position": 9, "freshness": FRESH}))
    client = twin.client(server.url, bank="b")
    kept = await twin(client, "after_turn", "s", "1", asked, told, user_id="ann")
    assert (kept.project, kept.position, kept.freshness.embedded) == ("b", 9, 8)
    assert server.seen[-1].path == "/api/v1/turns/after"
    body = {"bank": "b", "session_id": "s", "turn_id": "1", "user_id": "ann"}
    assert server.seen[-1].json == body | {"input_items": asked, "output_items": told}

    prepared = {"project": "b", "input_items": asked, "recall_fact_ids": ["f"], "recall_insight_ids": []}
    server.answers(JSONResponse({**prepared, "context_token_count": 7, "position": 9, "freshness": FRESH}))
    made = await twin(client, "before_turn", "s", "2", asked, max_input_tok=50)
    assert (made.input_items, made.recall_fact_ids, made.context_token_count) == (tuple(asked), ("f",), 7)
    assert TEXT not in repr(made)
    sent = server.seen[-1].json
    assert server.seen[-1].path == "/api/v1/turns/before"
    assert (sent["current_input"], sent["max_input_tok"], sent["min_position"]) == (asked, 50, 9)


async def test_an_error_about_a_turn_shows_none_of_its_texts(server: Loopback, twin: Twin) -> None:
    asked = [{"type": "message", "role": "user", "content": TEXT}]
    server.answers(JSONResponse(error_body("TURN_CONFLICT", f"this was said: {TEXT}"), 409))
    with pytest.raises(TurnConflictError) as caught:
        await twin(twin.client(server.url), "after_turn", "s", "1", asked)
    assert TEXT not in everything_in(caught.value)


async def test_lists_are_read_page_by_page(server: Loopback, twin: Twin) -> None:
    at = "2026-01-02T03:04:05Z"
    session = {"session_id": "s", "turns": 1, "messages": 2, "last_position": 7, "updated_at": at}
    turn = {"turn_id": "t", "position": 7, "accepted_at": at, "messages": 2}
    said = {
        "session_id": "s",
        "turn_id": "t",
        "ordinal": 0,
        "role": None,
        "name": None,
        "occurred_at": at,
        "position": 7,
    }
    unit = {"unit_id": str(SOURCE), "kind": "experience", "text": TEXT, "cut": False, "origin": "message", **said}
    directive = {"directive_id": str(SOURCE), "name": "tone", "content": TEXT, "priority": 1, "laid_down_by": None}
    rows = {
        "banks": {"bank": "b", "scope": "host", **OWNER, "language": "auto", "settled": True, "expires_at": None},
        "sessions": session,
        "turns": turn,
        "units": unit,
        "users": {"user": str(SOURCE), "name": None},
        "directives": directive,
        "reflections": {"reflection_id": str(SOURCE), "content": TEXT, "updated_at": at},
    }
    client = twin.client(server.url)
    for name, row in rows.items():
        server.answers(JSONResponse({name: [row], "cursor": "c", "has_more": True}))
        of_session = ["s"] if name == "turns" else []
        page = await twin(client, f"list_{name}", *of_session, cursor="before", limit=1)
        assert (len(page.rows), page.cursor) == (1, "c")
        assert TEXT not in repr(page)
        place = {} if name in {"banks", "users"} else {"bank": "default"}
        asked = {"limit": "1", "cursor": "before", **place, **({"session_id": "s"} if of_session else {})}
        assert (server.seen[-1].path, server.seen[-1].params) == (f"/api/v1/{name}", asked)
