"""Posts on kept connections, against real sockets: what is sent once, what comes back, and which connections go on."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import certifi
import pytest
from afterturn_client.errors import InvalidRequestError
from afterturn_client.posts import Posts
from afterturn_client.transport import CERTIFICATES, MAX_REPLY_BYTES, Lost, Reply, trusted_certificates

from tests.client.loopback import closed_port, everything_in, loopback, raw_server, without_proxies
from tests.client.talker import FINE, Talker, serving
from tests.patience import PATIENCE_S, until
from tests.tables import each_row

BODY = b'{"text": "the distinctive cormorant sentence"}'
PATH = "/memories/add"
#: More than any buffer on the way takes.
LONG = bytes(64 << 20)


@asynccontextmanager
async def posts(url: str, timeout_s: float = PATIENCE_S, keep_s: float = 60.0) -> AsyncIterator[Posts]:
    made = Posts(url, timeout_s, keep_s=keep_s)
    try:
        yield made
    finally:
        await made.aclose()


@pytest.mark.parametrize("base", ["", "/beneath"])
async def test_a_post_arrives_as_it_was_meant_and_so_does_its_answer(base: str) -> None:
    with loopback() as server:
        async with posts(server.url + base) as sending:
            reply = await sending.send(PATH, BODY)
    (seen,) = server.seen
    assert (seen.method, seen.path, seen.body) == ("POST", base + PATH, BODY)
    assert seen.headers["host"] == server.url.removeprefix("http://")
    assert seen.headers["content-type"] == seen.headers["accept"] == "application/json"
    assert isinstance(reply, Reply)
    assert (reply.status, reply.body) == (200, b'{"ok":true}')


@each_row(
    "answer, status, body, retry_after",
    [
        (b"HTTP/1.1 429 Slow\r\nRetry-After: 7\r\ncontent-length: 0\r\n\r\n", 429, b"", 7.0),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", 200, b"{}", None),
        (b"HTTP/1.0 200 OK\r\n\r\n{}", 200, b"{}", None),
        (b"HTTP/1.1 200 OK\r\n\r\n{}", 200, b"{}", None),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + FINE, 200, b"{}", None),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", None),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}", 200, None, None),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + gzip.compress(b"{}", mtime=0), 200, b"{}", None),
        (FINE + b"HTTP/1.1 500 Nobody asked\r\ncontent-length: 0\r\n\r\n", 200, b"{}", None),
        (FINE + b"what is this", 200, b"{}", None),
    ],
)
async def test_whatever_form_an_answer_has_it_is_read_to_its_end(
    answer: bytes, status: int, body: bytes | None, retry_after: float | None
) -> None:
    with raw_server(answer) as (url, received):
        async with posts(url) as sending:
            reply = await sending.send(PATH, BODY)
    assert isinstance(reply, Reply)
    assert (reply.status, reply.body, reply.retry_after) == (status, body, retry_after)
    assert len(received) == 1


@each_row(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\ncontent-len",
        b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{}",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: other\r\n\r\n",
        b"220 mail ready\r\n",
    ],
)
async def test_an_answer_that_does_not_come_to_its_end_is_an_unknown_outcome(answer: bytes) -> None:
    with raw_server(answer) as (url, received):
        async with posts(url) as sending:
            lost = await sending.send(PATH, BODY)
    assert isinstance(lost, Lost)
    assert (lost.category, lost.sent, len(received)) == ("connection", True, 1)


async def test_an_answer_that_is_too_long_is_read_no_further() -> None:
    async def flood(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (2 * MAX_REPLY_BYTES))
        with suppress(ConnectionError):
            while True:
                writer.write(bytes(1 << 20))
                await writer.drain()

    async with serving(flood) as url, posts(url) as sending:
        reply = await sending.send(PATH, BODY)
    assert isinstance(reply, Reply)
    assert (reply.status, reply.body) == (200, None)


async def test_a_refused_connection_is_known_to_be_unsent() -> None:
    async with posts(closed_port()) as sending:
        lost = await sending.send(PATH, BODY)
    assert isinstance(lost, Lost)
    assert (lost.category, lost.sent) == ("connection", False)


async def test_an_address_that_names_no_machine_is_known_to_be_unsent() -> None:
    async with posts(f"http://{'x' * 70}.invalid") as sending:
        lost = await sending.send(PATH, BODY)
    assert isinstance(lost, Lost)
    assert (lost.category, lost.sent) == ("connection", False)


async def test_silence_ends_as_a_timeout_of_unknown_outcome() -> None:
    server = Talker(answers=1, hangs=True)
    async with server.listening() as url, posts(url) as sending:
        await sending.send(PATH, BODY)
        sending._timeout_s = 0.1
        lost = await sending.send(PATH, BODY)
    assert isinstance(lost, Lost)
    assert (lost.category, lost.sent) == ("timeout", True)


async def test_of_a_call_that_was_given_up_no_more_is_sent_behind_its_callers_back() -> None:
    begun, given_up, heard = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop().create_future()

    async def reads_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = len(await reader.read(1))
        begun.set()
        await given_up.wait()
        with suppress(ConnectionError):
            while piece := await reader.read(1 << 20):
                size += len(piece)
        writer.close()
        heard.set_result(size)

    async with serving(reads_late) as url, posts(url) as sending:
        call = asyncio.create_task(sending.send(PATH, LONG))
        await begun.wait()
        call.cancel()
        await asyncio.wait([call])
        given_up.set()
        assert await heard < len(LONG)


async def test_who_is_cancelled_leaves_no_connection_to_the_next_call() -> None:
    server = Talker(answers=0, hangs=True)
    async with server.listening() as url, posts(url) as sending:
        for asked in (1, 2):
            call = asyncio.create_task(sending.send(PATH, BODY))
            await until(lambda: sum(server.calls_of_connections) == asked, "the call has arrived")  # noqa: B023 - awaited in the same round
            call.cancel()
            await asyncio.wait([call])
    assert server.calls_of_connections == [1, 1]


async def test_a_kept_connection_serves_the_next_call_until_the_other_side_closes_it() -> None:
    server = Talker()
    async with server.listening() as url, posts(url) as sending:
        await sending.send(PATH, BODY)
        await sending.send(PATH, BODY)
        assert server.calls_of_connections == [2]
        await server.hang_up()
        assert isinstance(await sending.send(PATH, BODY), Reply)
    assert server.calls_of_connections == [2, 1]


async def test_a_kept_connection_that_is_gone_with_its_gateway_has_carried_nothing() -> None:
    server = Talker()
    async with server.listening() as url:
        sending = Posts(url, PATIENCE_S, keep_s=60.0)
        await sending.send(PATH, BODY)
    lost = await sending.send(PATH, BODY)
    await sending.aclose()
    assert isinstance(lost, Lost)
    assert (lost.category, lost.sent, server.calls_of_connections) == ("connection", False, [1])


async def test_a_kept_connection_that_ends_without_a_byte_of_the_answer_is_an_unknown_outcome() -> None:
    server = Talker(answers=1)
    async with server.listening() as url, posts(url) as sending:
        await sending.send(PATH, BODY)
        lost = await sending.send(PATH, BODY)
    assert isinstance(lost, Lost)
    assert (lost.category, lost.sent, server.calls_of_connections) == ("connection", True, [2])


async def test_calls_at_the_same_time_have_a_connection_each_and_those_after_them_use_them_again() -> None:
    server = Talker()
    async with server.listening() as url, posts(url) as sending:
        for _ in range(2):
            await asyncio.gather(*(sending.send(PATH, BODY) for _ in range(3)))
        await sending.send(PATH, BODY)
    assert sorted(server.calls_of_connections) == [2, 2, 3]


@pytest.mark.parametrize(
    "answer",
    [
        FINE.replace(b"OK\r\n", b"OK\r\nconnection: close\r\n"),
        FINE.replace(b"1.1", b"1.0"),
    ],
)
async def test_a_connection_that_is_to_end_serves_no_other_call(answer: bytes) -> None:
    server = Talker(answer=answer)
    async with server.listening() as url, posts(url) as sending:
        replies = [await sending.send(PATH, BODY) for _ in range(2)]
    assert [reply.status for reply in replies if isinstance(reply, Reply)] == [200, 200]
    assert server.calls_of_connections == [1, 1]


@pytest.mark.parametrize("pause_s", [0.0, 0.1], ids=["not heard of yet", "read already"])
async def test_what_comes_while_nobody_asks_is_nobodys_answer(pause_s: float) -> None:
    server = Talker()
    async with server.listening() as url, posts(url) as sending:
        await sending.send(PATH, BODY)
        await server.say(FINE.replace(b"200 OK", b"500 Nobody asked"))
        await asyncio.sleep(pause_s)
        reply = await sending.send(PATH, BODY)
    assert isinstance(reply, Reply)
    assert reply.status == 200
    assert server.calls_of_connections == [1, 1]


async def test_a_connection_that_idled_too_long_is_closed_and_goes_out_no_more() -> None:
    server = Talker()
    async with server.listening() as url, posts(url, keep_s=0.05) as sending:
        await sending.send(PATH, BODY)
        await asyncio.sleep(0.1)
        await sending.send(PATH, BODY)
    assert server.calls_of_connections == [1, 1]


async def test_without_a_time_to_keep_them_each_call_has_a_connection_of_its_own() -> None:
    with loopback() as server:
        async with posts(server.url, keep_s=0.0) as sending:
            for _ in range(2):
                await sending.send(PATH, BODY)
    assert [seen.headers["connection"] for seen in server.seen] == ["close", "close"]


@pytest.mark.parametrize("scheme", ["http://", ""])
async def test_the_environments_proxy_is_asked_for_what_is_not_on_this_machine(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loopback() as proxy:
        without_proxies(monkeypatch)
        monkeypatch.setenv("http_proxy", scheme + proxy.url.removeprefix("http://"))
        async with posts("http://gateway.test") as sending, posts(proxy.url) as local:
            assert isinstance(await sending.send(PATH, BODY), Reply)
            assert isinstance(await local.send(PATH, BODY), Reply)
    assert [seen.headers["host"] for seen in proxy.seen] == ["gateway.test", proxy.url.removeprefix("http://")]


def test_certificates_are_read_once_for_each_place_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CERTIFICATES:
        monkeypatch.delenv(name, raising=False)
    local, usual = trusted_certificates("http://127.0.0.1:1"), trusted_certificates("https://gateway.test")
    assert trusted_certificates("https://other.test") is usual
    monkeypatch.setenv("SSL_CERT_FILE", certifi.where())
    assert trusted_certificates("https://gateway.test") is not usual
    assert trusted_certificates("http://127.0.0.1:1") is local


async def test_a_proxy_that_refuses_has_let_nothing_through(monkeypatch: pytest.MonkeyPatch) -> None:
    without_proxies(monkeypatch)
    with raw_server(b"HTTP/1.1 407 Who are you\r\ncontent-length: 0\r\n\r\n") as (url, received):
        monkeypatch.setenv("https_proxy", url)
        async with posts("https://gateway.test") as sending:
            lost = await sending.send(PATH, BODY)
    assert isinstance(lost, Lost)
    assert (lost.category, lost.sent) == ("connection", False)
    assert all(BODY not in one for one in received)


def test_a_proxy_that_does_not_speak_http_is_refused_without_being_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    without_proxies(monkeypatch)
    monkeypatch.setenv("all_proxy", "socks5://ana:distinctive@proxy.test:1")
    with pytest.raises(InvalidRequestError, match="proxy") as caught:
        Posts("http://gateway.test", PATIENCE_S, keep_s=60.0)
    assert "distinctive" not in everything_in(caught.value)


async def test_a_peer_that_cannot_prove_itself_has_been_told_nothing() -> None:
    with raw_server(FINE) as (url, received):
        async with posts(url.replace("http:", "https:")) as sending:
            lost = await sending.send(PATH, BODY)
    assert isinstance(lost, Lost)
    assert (lost.category, lost.sent) == ("connection", False)
    assert all(BODY not in one for one in received)


async def test_what_is_closed_closes_its_connections_those_in_use_too_and_opens_no_more() -> None:
    server = Talker()
    async with server.listening() as url:
        sending = Posts(url, PATIENCE_S, keep_s=60.0)
        await asyncio.gather(sending.send(PATH, BODY), sending.send(PATH, BODY))
        call = asyncio.create_task(sending.send(PATH, BODY))
        await asyncio.sleep(0)
        await sending.aclose()
        assert isinstance(await call, Reply)
        await until(lambda: server.ended == 2, "both connections have ended")
        with pytest.raises(RuntimeError):
            await sending.send(PATH, BODY)
