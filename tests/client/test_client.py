"""Both clients against a real socket: what they send, what they make of the answers, what they repeat."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from urllib.parse import unquote

import afterturn_client as module
import httpx
import pytest
from afterturn_client import (
    Afterturn,
    AfterturnError,
    ApiError,
    AsyncAfterturn,
    InvalidAnswerError,
    InvalidRequestError,
    Message,
    NewTurn,
    RefusedTurn,
    RetryPolicy,
    TurnConflictError,
    TurnReceipt,
    UnknownOutcomeError,
    UnreachableError,
)
from afterturn_client.calls import segment
from afterturn_client.errors import BY_CODE
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import JSONResponse, PlainTextResponse, Response

from tests.client.loopback import Loopback, Seen, closed_port, everything_in, raw_server
from tests.patience import PATIENCE_S

KEY = "at_distinctive-key-1b7f"
TEXT = "the heron kept the blue ledger"
QUICK = RetryPolicy(pauses_s=(0.01, 0.01, 0.01, 0.01))
FRESH = {"position": 9, "embedded": 8, "extracted": 7, "projected": 6, "pending": 5, "waited_ms": 1.5, "met": True}
RECALLED = {
    "unit_id": "u1",
    "kind": "experience",
    "text": TEXT,
    "score": 1,
    "session_id": "s",
    "turn_id": "t",
    "role": "user",
    "name": None,
    "occurred_at": "2026-01-02T03:04:05Z",
    "arms": ["dense", "lexical"],
    "novelty": "unknown fields pass",
}
ANSWER = {"results": [RECALLED], "reference": {"role": "user", "content": TEXT}, "freshness": FRESH, "took_ms": 3.5}
FACT: dict[str, Any] = {
    "fact_id": "user_home",
    "key": "home",
    "value": "Lisbon",
    "text": "Ana lives in Lisbon.",
    "bank": "default",
    "unit_id": "u",
    "session_id": "s",
    "turn_id": "t",
    "said_at": "2026-02-02T00:00:00Z",
    "since": "2026-02-01T00:00:00Z",
    "until": None,
    "stated": 2,
    "history": [],
}
POORER = {**ANSWER, "degraded": ["rerank: late"]}


@dataclass
class Twin:
    """One of the two clients behind one way to call it."""

    kind: Any
    open: list[AsyncAfterturn | Afterturn]

    def client(self, url: str, **options: Any) -> AsyncAfterturn | Afterturn:
        client: AsyncAfterturn | Afterturn = self.kind(url, KEY, **{"retry": QUICK, "timeout_s": PATIENCE_S, **options})
        self.open.append(client)
        return client

    async def __call__(self, client: AsyncAfterturn | Afterturn, name: str, *args: Any, **options: Any) -> Any:
        method = getattr(client, name)
        if isinstance(client, AsyncAfterturn):
            return await method(*args, **options)
        return await asyncio.to_thread(method, *args, **options)


@pytest.fixture(params=[AsyncAfterturn, Afterturn])
async def twin(request: pytest.FixtureRequest) -> AsyncIterator[Twin]:
    made = Twin(request.param, [])
    yield made
    for client in made.open:
        await client.aclose() if isinstance(client, AsyncAfterturn) else client.close()


def error_body(code: str, message: str = "no", *, retryable: bool = False) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "retryable": retryable, "details": {}}, "request_id": "r-1"}


def accepted(position: int = 42, *, duplicate: bool = False) -> JSONResponse:
    return JSONResponse({"ok": True, "position": position, "duplicate": duplicate}, 200 if duplicate else 201)


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
    dead = {"status": "dead", "attempts": 5, "updated_at": None, "error": {"category": "timeout"}}
    body = {"position": 1, "accepted_at": "2026-01-02T03:04:05+00:00", "stages": {"gateway": dead, "embedding": stage}}
    server.answers(JSONResponse(body))
    status = await twin(twin.client(server.url), "turn_status", session_id, turn_id)
    (seen,) = server.seen
    assert seen.raw_path == raw_path
    assert seen.params == {"bank": "default"}
    assert status.accepted_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert status.stages["gateway"].error == {"category": "timeout"}
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
            return JSONResponse({"job_id": "j", "expires_at": "2026-01-02T03:04:05Z"}, 202)
        return (
            Response(status_code=204) if seen.method == "DELETE" else JSONResponse({"status": "done", "result": ANSWER})
        )

    server.answer = answer
    client = twin.client(server.url)
    job = await twin(client, "start_recall", "who?", ttl_s=60, k=2)
    state = await twin(client, "recall_job", job.job_id, wait_ms=50)
    assert await twin(client, "cancel_recall", job.job_id) is None
    assert server.seen[0].json == {"bank": "default", "query": "who?", "k": 2, "ttl_s": 60}
    assert [seen.raw_path.partition("?")[0] for seen in server.seen[1:]] == ["/api/v1/recall/jobs/j"] * 2
    assert server.seen[1].params == {"wait_ms": "50"}
    assert state.answer is not None
    assert state.answer.results[0].text == TEXT


async def test_freshness_units_and_health_have_their_paths(server: Loopback, twin: Twin) -> None:
    def answer(seen: Seen) -> Response:
        if seen.path.endswith("/pin"):
            changed = seen.method == "PUT"
            return JSONResponse({"ok": True, "unit_id": "u", "position": 11, "changed": changed, "facts_ended": 0})
        if seen.method == "DELETE":
            return Response(status_code=204)
        if seen.method == "PATCH":
            assert seen.json == {"content": "new words", "version": 2}
            return JSONResponse({"ok": True, "unit_id": "u", "position": 9, "changed": True, "facts_ended": 1})
        if "freshness" in seen.path:
            return JSONResponse({name: FRESH[name] for name in list(FRESH)[:5]})
        return JSONResponse({"unit_id": "u", "text": TEXT, "kind": "world", "status": "ready", "sources": []})

    server.answer = answer
    client = twin.client(server.url)
    fresh = await twin(client, "freshness", bank="a/b", position=3, wait_ms=9)
    unit = await twin(client, "get_unit", "u", bank="b")
    corrected = await twin(client, "correct_unit", "u", "new words", version=2)
    pinned = await twin(client, "pin_unit", "u", pinned=True, bank="b")
    unpinned = await twin(client, "pin_unit", "u", pinned=False)
    await twin(client, "delete_unit", "u")
    health = await twin(client, "health")
    assert [seen.raw_path.partition("?")[0] for seen in server.seen] == [
        "/api/v1/banks/a%2Fb/freshness",
        "/api/v1/units/u",
        "/api/v1/units/u",
        "/api/v1/units/u/pin",
        "/api/v1/units/u/pin",
        "/api/v1/units/u",
        "/health/ready",
    ]
    assert server.seen[0].params == {"position": "3", "wait_ms": "9"}
    assert (fresh.position, fresh.met) == (9, True)
    assert (unit.text, unit.raw["sources"]) == (TEXT, [])
    assert [seen.method for seen in server.seen[3:5]] == ["PUT", "DELETE"]
    assert server.seen[3].params == {"bank": "b"}
    assert (pinned.position, pinned.changed, unpinned.changed) == (11, True, False)
    assert (corrected.position, corrected.changed, corrected.facts_ended) == (9, True, 1)
    assert health.status == "ready"


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


@pytest.mark.parametrize("code", sorted(BY_CODE))
async def test_every_wire_code_is_an_error_of_its_own(server: Loopback, twin: Twin, code: str) -> None:
    server.answers(JSONResponse(error_body(code, "k is 0; allowed 1..100"), 418, headers={"retry-after": "3"}))
    with pytest.raises(BY_CODE[code]) as caught:
        await twin(twin.client(server.url), "recall", "q")
    error = caught.value
    assert (error.code, error.status, error.retryable, error.retry_after, error.request_id) == (
        code,
        418,
        False,
        3.0,
        "r-1",
    )
    assert "k is 0; allowed 1..100" in str(error)
    assert len(server.seen) == 1


async def test_an_error_without_the_services_body_is_judged_by_its_status(server: Loopback, twin: Twin) -> None:
    server.answers(PlainTextResponse("<html>" + TEXT, 404))
    with pytest.raises(module.NotFoundError) as caught:
        await twin(twin.client(server.url), "get_unit", "u")
    assert str(caught.value) == "404 NOT_FOUND"
    server.answers(PlainTextResponse("teapot", 418))
    with pytest.raises(ApiError) as other:
        await twin(twin.client(server.url), "get_unit", "u")
    assert (other.value.code, other.value.retryable) == ("UNKNOWN", False)


@pytest.mark.parametrize(
    "refusal",
    [
        JSONResponse(error_body("UNAVAILABLE", retryable=True), 503, headers={"retry-after": "0"}),
        JSONResponse(error_body("RATE_LIMITED", retryable=True), 429, headers={"retry-after": "0"}),
        JSONResponse(error_body("RESOURCE_BUSY", retryable=True), 409),
        PlainTextResponse("bad gateway", 502),
    ],
)
async def test_what_is_safe_to_repeat_is_repeated(server: Loopback, twin: Twin, refusal: Response) -> None:
    server.answers(refusal, refusal, accepted())
    assert (await twin(twin.client(server.url), "add_turn", "s", [Message("user", "x")])).position == 42
    assert len(server.seen) == 3
    assert len({seen.body for seen in server.seen}) == 1


@pytest.mark.parametrize(
    "code,status", [("TURN_CONFLICT", 409), ("INVALID_ARGUMENT", 422), ("UNAVAILABLE", 503), ("QUOTA_EXCEEDED", 429)]
)
async def test_what_the_service_calls_final_is_not_repeated(
    server: Loopback, twin: Twin, code: str, status: int
) -> None:
    server.answers(JSONResponse(error_body(code), status))
    with pytest.raises(BY_CODE[code]):
        await twin(twin.client(server.url), "add_turn", "s", [Message("user", "x")])
    assert len(server.seen) == 1


async def test_a_500_is_not_repeated(server: Loopback, twin: Twin) -> None:
    server.answers(PlainTextResponse("boom", 500))
    with pytest.raises(ApiError):
        await twin(twin.client(server.url), "add_turn", "s", [Message("user", "x")])
    assert len(server.seen) == 1


async def test_retries_end(server: Loopback, twin: Twin) -> None:
    server.answers(JSONResponse(error_body("RESOURCE_BUSY", retryable=True), 409))
    with pytest.raises(module.ResourceBusyError):
        await twin(twin.client(server.url), "add_turn", "s", [Message("user", "x")])
    assert len(server.seen) == 5


async def test_a_cut_connection_is_repeated_for_a_turn_and_not_for_a_recall_job(twin: Twin) -> None:
    with raw_server(b"") as (url, received):
        with pytest.raises(UnknownOutcomeError):
            await twin(twin.client(url), "add_turn", "s", [Message("user", "x")])
        assert len(received) == 5
        with pytest.raises(UnknownOutcomeError):
            await twin(twin.client(url), "start_recall", "q")
        assert len(received) == 6


async def test_a_service_that_is_away_is_unreachable(twin: Twin) -> None:
    with pytest.raises(UnreachableError):
        await twin(twin.client(closed_port()), "start_recall", "q")


async def test_silence_is_an_unknown_outcome_after_the_timeout(twin: Twin) -> None:
    with raw_server(b"", linger_s=PATIENCE_S) as (url, _received):
        client = twin.client(url, timeout_s=0.1, retry=RetryPolicy(pauses_s=()))
        with pytest.raises(UnknownOutcomeError):
            await twin(client, "recall", "q")


@pytest.mark.parametrize(
    "answer",
    [
        PlainTextResponse("no json"),
        JSONResponse([1]),
        JSONResponse({"position": 1}),
        JSONResponse({"position": True, "duplicate": False}),
        JSONResponse({"position": "1", "duplicate": False}),
        Response(status_code=204),
    ],
)
async def test_an_answer_against_the_contract_is_a_typed_error(server: Loopback, twin: Twin, answer: Response) -> None:
    server.answers(answer)
    with pytest.raises(InvalidAnswerError):
        await twin(twin.client(server.url), "add_turn", "s", [Message("user", "x")])


async def test_a_batch_answer_of_another_length_is_refused(server: Loopback, twin: Twin) -> None:
    server.answers(JSONResponse({"results": []}))
    with pytest.raises(InvalidAnswerError):
        await twin(twin.client(server.url), "add_turns", [NewTurn("s", [Message("user", "x")])])


@pytest.mark.parametrize(
    "message", [f"bad content: {TEXT}", f"value {KEY} refused", f"near {TEXT[3:22]!r}", "x" * 9000]
)
async def test_an_echo_of_the_request_does_not_reach_the_error(server: Loopback, twin: Twin, message: str) -> None:
    server.answers(JSONResponse(error_body("INVALID_ARGUMENT", message), 422))
    client = twin.client(server.url)
    for call in (("add_turn", "s", [Message("user", TEXT)]), ("recall", TEXT), ("start_recall", TEXT)):
        with pytest.raises(AfterturnError) as caught:
            await twin(client, *call)
        shown = everything_in(caught.value)
        assert KEY not in shown
        assert TEXT[3:22] not in shown
        assert len(shown) < 5000


async def test_no_failure_shows_the_key_or_the_text(twin: Twin) -> None:
    turn = ("add_turn", "s", [Message("user", TEXT)])
    with raw_server(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{") as (cut, _received):
        for url in (closed_port(), cut):
            with pytest.raises(AfterturnError) as caught:
                await twin(twin.client(url, retry=RetryPolicy(pauses_s=())), *turn)
            shown = everything_in(caught.value)
            assert KEY not in shown
            assert TEXT not in shown


async def test_what_cannot_be_sent_is_refused_here(server: Loopback, twin: Twin) -> None:
    client = twin.client(server.url)
    naive = datetime(2026, 1, 1)  # noqa: DTZ001 - the point of the test
    for message in (
        Message("user", TEXT + "\ud800"),
        Message("user", [{"n": float("nan"), "t": TEXT}]),
        Message("user", TEXT, timestamp=naive),
    ):
        with pytest.raises(InvalidRequestError) as caught:
            await twin(client, "add_turn", "s", [message])
        assert TEXT not in everything_in(caught.value)
    assert server.seen == []


@pytest.mark.parametrize("key", ["", "two words", "line\nbreak", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(twin: Twin, key: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        twin.kind("http://127.0.0.1:9", key)
    assert not key or key not in everything_in(caught.value)


@pytest.mark.parametrize("url", [f"http://u:{KEY}@h:1", f"http://{KEY}@h", f"http://h:{KEY}", f"http://h/?k={KEY}", ""])
def test_a_base_url_with_a_password_or_none_at_all_is_refused_without_being_shown(twin: Twin, url: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        twin.kind(url, "at_key")
    assert KEY not in everything_in(caught.value)


def test_reprs_show_neither_key_nor_text(twin: Twin) -> None:
    client = twin.client("http://127.0.0.1:9", bank="b")
    turn = NewTurn("s", [Message("user", TEXT)], metadata={"note": TEXT})
    answer = module.RecallAnswer((), {"content": TEXT}, module.Freshness(1, 1, 1, 1, 0), 1.0, {"results": [TEXT]})
    shown = repr(client) + str(client) + repr(turn) + repr(answer) + repr(Message("user", TEXT))
    assert KEY not in shown
    assert TEXT not in shown
    assert "127.0.0.1:9" in shown


async def test_the_environments_proxy_does_not_stand_before_loopback(
    server: Loopback, twin: Twin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", closed_port())
    server.answers(JSONResponse({"status": "ok"}))
    assert (await twin(twin.client(server.url), "health")).status == "ready"


async def test_both_close_when_their_block_ends(server: Loopback) -> None:
    server.answers(JSONResponse({"status": "ok"}))
    async with AsyncAfterturn(server.url, KEY) as client:
        await client.health()
    with Afterturn(server.url, KEY) as blocking:
        await asyncio.to_thread(blocking.health)
    assert client._http.is_closed
    assert blocking._http.is_closed


def test_the_twins_have_the_same_methods() -> None:
    awaiting = {name for name in vars(AsyncAfterturn) if not name.startswith("_")}
    blocking = {name for name in vars(Afterturn) if not name.startswith("_")}
    assert awaiting - {"aclose"} == blocking - {"close"}


def test_the_public_names_are_those_listed() -> None:
    public = {name for name, value in vars(module).items() if isinstance(value, type)}
    assert public == set(module.__all__)


def test_every_answer_is_frozen() -> None:
    answers = [getattr(module, name) for name in module.__all__ if is_dataclass(getattr(module, name))]
    assert len(answers) > 10
    assert all(answer.__dataclass_params__.frozen and fields(answer) for answer in answers)


def test_importing_it_brings_httpx_and_nothing_of_the_service() -> None:
    script = "import sys; old = set(sys.modules); import httpx; base = set(sys.modules); import afterturn_client; \
import afterturn_client.gateway; print(*sorted({name.partition('.')[0] for name in set(sys.modules) - base}))"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    brought = {name for name in shown.split() if name not in sys.stdlib_module_names}
    assert brought == {"afterturn_client"}


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_name_is_one_segment_of_a_path_and_comes_back(name: str) -> None:
    quoted = segment(name)
    assert unquote(quoted) == name
    assert not set(quoted) & set("/?# \\")
    assert httpx.URL(f"http://h/a/{quoted}/b").raw_path.decode() == f"/a/{quoted}/b"


async def test_a_profile_is_asked_for_as_given_and_typed(server: Loopback, twin: Twin) -> None:
    before = {**FACT, "value": "Porto", "until": "2026-02-01T00:00:00Z", "history": []}
    told = {"names": ["Ana"], "facts": [{**FACT, "history": [before]}], "beside": [{"name": "Bo", "kind": "person"}]}
    server.answers(JSONResponse(told))
    client = twin.client(server.url)
    found = await twin(client, "profile", user_id="ana", history=True, limit=3)
    assert server.seen[0].params == {"user_id": "ana", "history": "true", "limit": "3"}
    [fact] = found.facts
    assert (fact.value, fact.stated, fact.until, fact.history[0].value) == ("Lisbon", 2, None, "Porto")
    assert (found.names, found.beside, found.raw) == (("Ana",), ("Bo",), told)
    assert "Lisbon" not in repr(found)


async def test_a_banks_language_is_set_by_its_name(server: Loopback, twin: Twin) -> None:
    server.answers(JSONResponse({"ok": True, "bank": "a/b", "language": "de", "settled": False, "scope": "host"}))
    told = await twin(twin.client(server.url), "set_language", "de", bank="a/b")
    assert (server.seen[0].method, server.seen[0].raw_path) == ("PATCH", "/api/v1/banks/a%2Fb")
    assert (server.seen[0].json, told.bank, told.language, told.settled) == ({"language": "de"}, "a/b", "de", False)
