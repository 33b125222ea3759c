"""What the clients make of refusals, of silence and of nonsense: an error of its own, and what is repeated."""

from datetime import datetime

import afterturn_client as module
import pytest
from afterturn_client import (
    Afterturn,
    AfterturnError,
    ApiError,
    InvalidAnswerError,
    InvalidRequestError,
    Message,
    NewTurn,
    RetryPolicy,
    UnknownOutcomeError,
    UnreachableError,
)
from afterturn_client.errors import BY_CODE
from starlette.responses import JSONResponse, PlainTextResponse, Response

from tests.client.loopback import Loopback, closed_port, everything_in, raw_server, silent_server
from tests.client.twins import KEY, TEXT, Twin, accepted, error_body, twin
from tests.patience import PATIENCE_S

__all__ = ["twin"]


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
    with silent_server() as (url, _received):
        blocks = twin.kind is Afterturn
        client = twin.client(url, timeout_s=0.1 if blocks else PATIENCE_S, retry=RetryPolicy(pauses_s=()))
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
