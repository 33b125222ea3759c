"""Requests to a gateway on a connection of their own: every way an answer can be framed, cut or wrong.

What the gateway's client makes of them is tested with the client, for this way and for httpx.
"""

import asyncio
import gc
import ssl
from collections.abc import Iterator
from contextlib import suppress

import pytest
from afterturn_client.transport import MAX_REPLY_BYTES, Lost, Reply, Request

from tests.client.loopback import Loopback, closed_port, loopback, raw_server
from tests.patience import until
from workers.gateway_wire import Wire, wire

REQUEST = Request("POST", "/memories/add", body='{"text":"Grüße"}'.encode(), timeout_s=30.0)


@pytest.fixture
def server() -> Iterator[Loopback]:
    with loopback() as running:
        yield running


async def answered(reply: bytes) -> Reply | Lost:
    with raw_server(reply) as (url, received):
        outcome = await wire(url).send(REQUEST)
    assert len(received) == 1
    return outcome


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\n\r\n{}",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}HTTP/1.1 500 No\r\n\r\n",
    ],
    ids=["length", "chunks", "to the end", "old", "continue", "more than one"],
)
async def test_an_answer_is_read_however_it_is_framed(reply: bytes) -> None:
    outcome = await answered(reply)
    assert isinstance(outcome, Reply)
    assert (outcome.status, outcome.body) == (200, b"{}")


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"SSH-2.0-nobody\r\n",
    ],
    ids=["nothing", "half a line", "half a body", "half the chunks", "continue alone", "upgrade", "garbage"],
)
async def test_what_is_no_whole_answer_is_lost_after_it_was_sent(reply: bytes) -> None:
    outcome = await answered(reply)
    assert isinstance(outcome, Lost)
    assert (outcome.category, outcome.sent) == ("connection", True)


async def test_the_wait_an_answer_asks_for_is_handed_on() -> None:
    outcome = await answered(b"HTTP/1.1 429 Later\r\nRetry-After: 7\r\ncontent-length: 0\r\n\r\n")
    assert isinstance(outcome, Reply)
    assert (outcome.status, outcome.body, outcome.retry_after) == (429, b"", 7.0)


async def test_an_answer_too_long_to_read_keeps_its_status_alone() -> None:
    outcome = await answered(b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (MAX_REPLY_BYTES + 1))
    assert isinstance(outcome, Reply)
    assert (outcome.status, outcome.body) == (200, None)


async def test_a_body_coded_in_a_way_nobody_asked_for_is_not_taken_for_text() -> None:
    outcome = await answered(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}")
    assert isinstance(outcome, Reply)
    assert outcome.body is None


async def test_nothing_was_sent_where_nobody_listens() -> None:
    outcome = await wire(closed_port()).send(REQUEST)
    assert isinstance(outcome, Lost)
    assert (outcome.category, outcome.sent) == ("connection", False)


async def test_nothing_was_sent_to_whom_the_certificate_does_not_vouch_for(server: Loopback) -> None:
    outcome = await wire(server.url.replace("http:", "https:")).send(REQUEST)
    assert isinstance(outcome, Lost)
    assert (outcome.category, outcome.sent, server.seen) == ("connection", False, [])


async def test_who_gives_up_waiting_leaves_no_connection_open() -> None:
    asked, hung_up = asyncio.Event(), asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while await reader.read(65536):
                asked.set()
        writer.close()
        hung_up.set()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    sending = asyncio.create_task(wire(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}").send(REQUEST))
    await asked.wait()
    sending.cancel()
    await hung_up.wait()
    server.close()
    await asyncio.wait({sending})
    assert sending.cancelled()


def test_an_address_says_where_to_and_under_which_name() -> None:
    plain, safe = wire("http://[::1]:8080/beneath"), wire("https://gateway.example.com")
    assert plain == Wire("::1", 8080, "[::1]:8080", "/beneath", None)
    assert (safe.host, safe.port, safe.authority, safe.path) == ("gateway.example.com", 443, "gateway.example.com", "")
    assert safe.tls is not None
    assert safe.tls.verify_mode is ssl.CERT_REQUIRED
    assert safe.tls.check_hostname


async def test_a_call_leaves_nothing_for_the_collector(server: Loopback) -> None:
    """It would have to walk over all that a worker has loaded, for each few calls."""

    def left() -> bool:
        return any(type(one).__name__ == "_Talk" for one in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        assert isinstance(await wire(server.url).send(REQUEST), Reply)
        await until(lambda: not left(), "the call is gone without the collector")
    finally:
        gc.enable()
