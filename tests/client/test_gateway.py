"""The Memory Gateway's client against real sockets: exact bodies, typed errors, nothing sent twice."""

import asyncio
import gc
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from afterturn_client.errors import GatewayError, InvalidRequestError
from afterturn_client.gateway import GatewayClient, GatewayHit, GatewayMessage
from starlette.responses import JSONResponse, PlainTextResponse, Response

from tests.client.loopback import (
    Loopback,
    closed_port,
    everything_in,
    loopback,
    raw_server,
    silent_server,
    without_proxies,
)
from tests.patience import PATIENCE_S
from tests.tables import each_row

KEY = "uk_distinctive-secret-71c3"
TEXT = "the distinctive cormorant sentence"
MESSAGES = (
    GatewayMessage("ana", "user", 1_700_000_000_000, TEXT),
    GatewayMessage("beaver", "assistant", 1_700_000_000_001, "noted"),
)


def client(url: str, timeout_seconds: float = 30.0) -> GatewayClient:
    return GatewayClient(url, "ana", KEY, "app", "project", timeout_seconds)


async def failure(call: Awaitable[object]) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        await call
    return caught.value


async def test_add_sends_exactly_the_contracts_body(server: Loopback) -> None:
    async with client(server.url + "/") as gateway:
        await gateway.add("s-1", MESSAGES)
    (seen,) = server.seen
    assert (seen.method, seen.path) == ("POST", "/memories/add")
    assert seen.headers["content-type"] == "application/json"
    assert seen.json == {
        "user_id": "ana",
        "user_key": KEY,
        "session_id": "chat:s-1",
        "app_id": "app",
        "project_id": "project",
        "messages": [
            {"sender_id": "ana", "role": "user", "timestamp": 1_700_000_000_000, "content": TEXT},
            {"sender_id": "beaver", "role": "assistant", "timestamp": 1_700_000_000_001, "content": "noted"},
        ],
    }


async def test_flush_names_the_same_session_as_add(server: Loopback) -> None:
    async with client(server.url) as gateway:
        await gateway.flush("s-1")
    (seen,) = server.seen
    assert seen.path == "/memories/flush"
    assert seen.json == {
        "user_id": "ana",
        "user_key": KEY,
        "session_id": "chat:s-1",
        "app_id": "app",
        "project_id": "project",
    }


async def test_search_sends_the_bare_conversation_id(server: Loopback) -> None:
    server.answers(JSONResponse({"results": []}))
    async with client(server.url) as gateway:
        assert await gateway.search("s-1", "who?", ["current_chat", "resources"], 8) == ()
    (seen,) = server.seen
    assert seen.path == "/memories/search"
    assert seen.json == {
        "user_id": "ana",
        "user_key": KEY,
        "conversation_id": "s-1",
        "query": "who?",
        "scope": ["current_chat", "resources"],
        "top_k": 8,
        "app_id": "app",
        "project_id": "project",
    }


async def test_a_base_url_with_a_path_keeps_it(server: Loopback) -> None:
    async with client(server.url + "/beneath/") as gateway:
        await gateway.flush("s")
    assert server.seen[0].path == "/beneath/memories/flush"


async def test_search_keeps_six_fields_and_drops_results_without_text(server: Loopback) -> None:
    full = {
        "id": "a",
        "session_id": "s",
        "text": "one",
        "score": 0.5,
        "source_scope": "resources",
        "resource_uri": "viking://x",
        "raw": {"secret": 1},
    }
    odd = {"text": "two", "score": True, "id": 7, "session_id": None}
    huge = {"text": "three", "score": 10**400}
    torn = {"text": "half a sign \ud83d, NUL \x00", "id": "\udfff"}
    found = [full, {"id": "b"}, {"text": " "}, {"text": ["x"]}, odd, huge, torn]
    server.answers(Response(json.dumps({"results": found})))
    async with client(server.url) as gateway:
        hits = await gateway.search("s", "q", ["current_chat"], 8)
    assert hits == (
        GatewayHit("one", "a", "s", 0.5, "resources", "viking://x"),
        GatewayHit("two"),
        GatewayHit("three"),
        GatewayHit("half a sign ?, NUL \ufffd", "?"),
    )


@pytest.mark.parametrize(
    "reply,category,status",
    [
        (JSONResponse({"ok": True}, 401), "unauthorized", 401),
        (JSONResponse({"error": TEXT}, 500), "http_error", 500),
        (JSONResponse({}, 302, headers={"location": "http://127.0.0.1:1/"}), "http_error", 302),
        (PlainTextResponse("not json"), "invalid_json", 200),
        (Response(b'\xff\xfe{"'), "invalid_json", 200),
        (PlainTextResponse("[" * 100_000), "invalid_json", 200),
        (JSONResponse([1]), "invalid_response", 200),
        (Response(b"not gzip", headers={"content-encoding": "gzip"}), "invalid_response", 200),
    ],
)
async def test_an_unusable_answer_is_a_typed_error_with_its_status(
    server: Loopback, reply: Response, category: str, status: int
) -> None:
    server.answers(reply)
    async with client(server.url) as gateway:
        error = await failure(gateway.add("s", MESSAGES))
    assert (error.operation, error.path, error.category, error.status) == (
        "add",
        "/memories/add",
        category,
        status,
    )
    assert not error.unsent
    assert not error.unknown
    assert len(server.seen) == 1


@pytest.mark.parametrize("results", [None, {}, "x", [1], [{"text": "a"}, "b"]])
async def test_search_results_of_another_shape_are_an_invalid_response(server: Loopback, results: object) -> None:
    server.answers(JSONResponse({"results": results}))
    async with client(server.url) as gateway:
        error = await failure(gateway.search("s", "q", ["current_chat"], 8))
    assert error.category == "invalid_response"


async def test_retry_after_is_handed_on(server: Loopback) -> None:
    server.answers(JSONResponse({}, 429, headers={"retry-after": "7"}))
    async with client(server.url) as gateway:
        error = await failure(gateway.add("s", MESSAGES))
    assert (error.category, error.status, error.retry_after) == ("http_error", 429, 7.0)


async def test_a_refused_connection_is_known_to_be_unsent() -> None:
    async with client(closed_port()) as gateway:
        error = await failure(gateway.add("s", MESSAGES))
    assert (error.category, error.status, error.unsent, error.unknown) == ("connection", None, True, False)


async def test_a_connection_cut_before_the_answer_is_an_unknown_outcome() -> None:
    with raw_server(b"") as (url, received):
        async with client(url) as gateway:
            error = await failure(gateway.add("s", MESSAGES))
    assert (error.category, error.unsent, error.unknown) == ("connection", False, True)
    assert len(received) == 1


async def test_a_connection_cut_in_the_middle_of_the_answer_is_an_unknown_outcome() -> None:
    with raw_server(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{") as (url, _received):
        async with client(url) as gateway:
            error = await failure(gateway.add("s", MESSAGES))
    assert error.unknown


async def test_silence_ends_as_a_timeout_of_unknown_outcome() -> None:
    with silent_server() as (url, _received):
        async with client(url, PATIENCE_S) as gateway:
            error = await failure(gateway.add("s", MESSAGES))
    assert (error.category, error.unsent, error.unknown) == ("timeout", False, True)


async def test_an_answer_that_trickles_is_cut_off_at_the_timeout() -> None:
    stop, stopped = asyncio.Event(), asyncio.Event()

    async def trickle(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        while not stop.is_set():
            writer.write(b" ")
            await asyncio.sleep(0.05)
        writer.close()
        stopped.set()

    server = await asyncio.start_server(trickle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with client(f"http://127.0.0.1:{port}", 0.3) as gateway:
        error = await failure(gateway.add("s", MESSAGES))
    stop.set()
    await stopped.wait()
    server.close()
    assert error.category == "timeout"


async def test_no_connection_is_kept_between_calls(server: Loopback) -> None:
    """One the server has dropped meanwhile would make the second add an unknown outcome."""
    async with client(server.url) as gateway:
        await gateway.add("s", MESSAGES)
        await gateway.add("s", MESSAGES)
    assert [seen.headers["connection"] for seen in server.seen] == ["close", "close"]


@pytest.mark.parametrize(
    "environment, proxied",
    [
        ({}, False),
        ({"http_proxy": "PROXY"}, True),
        ({"all_proxy": "PROXY"}, True),
        ({"https_proxy": "PROXY"}, False),
        ({"http_proxy": "PROXY", "no_proxy": "gateway.test"}, False),
    ],
)
async def test_the_environments_proxy_is_asked_for_what_is_not_on_this_machine(
    environment: dict[str, str], *, proxied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_proxies(monkeypatch)
    with loopback() as proxy:
        for name, value in environment.items():
            monkeypatch.setenv(name, value.replace("PROXY", proxy.url.removeprefix("http://")))
        patience_s = 30.0 if proxied else 0.2
        far = GatewayClient("http://gateway.test", "ana", KEY, timeout_seconds=patience_s, allow_http=True)
        async with far as gateway, client(proxy.url) as local:
            with suppress(GatewayError):
                await gateway.flush("s")
            await local.flush("here")
    asked = [(seen.headers["host"], seen.json["session_id"]) for seen in proxy.seen]
    assert asked == [("gateway.test", "chat:s")] * proxied + [(proxy.url[7:], "chat:here")]


@pytest.mark.parametrize(
    "break_it",
    [
        lambda url: client(url).add("s", MESSAGES),
        lambda url: client(url).search("s", TEXT, ["current_chat"], 8),
        lambda _url: client(closed_port()).add("s", MESSAGES),
        lambda _url: client("http://127.0.0.1:9").add("s", MESSAGES),
    ],
)
async def test_no_error_shows_the_key_or_a_text(server: Loopback, break_it: Callable[[str], Awaitable[object]]) -> None:
    server.answers(JSONResponse({"error": f"{TEXT} {KEY}"}, 500))
    shown = everything_in(await failure(break_it(server.url)))
    assert KEY not in shown
    assert "cormorant" not in shown
    gc.collect()


@each_row(
    "url",
    [
        f"http://u:{KEY}/x@h:1",
        f"http://u:{KEY}@h:1",
        f"ftp://{KEY}",
        f"http://h:{KEY}",
        "",
        f"http://h/?k={KEY}",
        "http://h/?",
        "http://h#",
        " http://h",
    ],
)
def test_a_bad_base_url_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        client(url)
    assert KEY not in everything_in(caught.value)


@pytest.mark.parametrize("url", ["http://gateway.test", "http://192.0.2.1:8010", "HTTP://Gateway.test/x"])
def test_beyond_this_machine_the_key_goes_over_https_unless_plain_http_is_allowed(url: str) -> None:
    with pytest.raises(InvalidRequestError, match="https"):
        client(url)
    GatewayClient(url, "ana", KEY, allow_http=True)
    client(f"https{url[4:]}")
    client("http://[::1]:8010")


def test_reprs_show_neither_key_nor_text() -> None:
    shown = repr(client("http://127.0.0.1:9")) + repr(MESSAGES) + repr(GatewayHit(TEXT))
    assert KEY not in shown
    assert TEXT not in shown


@each_row("timeout", [0, -1, float("nan"), float("inf"), True])
def test_a_timeout_that_is_not_a_positive_number_is_refused(timeout: float) -> None:
    with pytest.raises(InvalidRequestError):
        client("http://127.0.0.1:9", timeout)


@each_row("moment", [0, -5, True, 1.5])
def test_a_timestamp_that_is_not_positive_milliseconds_is_refused(moment: int) -> None:
    with pytest.raises(InvalidRequestError):
        GatewayMessage("ana", "user", moment, "x")


async def test_a_text_that_is_not_unicode_is_refused_before_anything_is_sent(server: Loopback) -> None:
    async with client(server.url) as gateway:
        with pytest.raises(InvalidRequestError) as caught:
            await gateway.add("s", [GatewayMessage("ana", "user", 1, TEXT + "\ud800")])
    assert TEXT not in everything_in(caught.value)
    assert server.seen == []
