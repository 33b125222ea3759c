"""Attacks on a real API process without a key: each is refused or cut off, its memory stays, its connections go."""

import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest

from deploy.local.ports import find_free_port
from tests.deploy.api.test_process import api, environment, live
from tests.patience import PATIENCE_S, wait_until
from tests.servers import TestPostgres, TestValkey

pytestmark = pytest.mark.slow

MIB = 1024 * 1024
#: What an attack may leave behind in the process; the attacks send or ask for several times as much.
GROWTH = 24 * MIB
HEAD = b"POST /api/v1/turns HTTP/1.1\r\nHost: 127.0.0.1\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
#: The gateway's interface reads a body before it knows a key.
BODY = b"POST /memories/add HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\n{"
LIMITS = {
    "AFTERTURN_API__HEAD_SECONDS": "1.5",
    "AFTERTURN_API__BODY_SECONDS": "1.5",
    "AFTERTURN_API__MAX_UNFINISHED_PER_ADDRESS": "8",
    # Work that other tests left in this database is not the API's.
    "AFTERTURN_HEALTH__OLDEST_UNDONE_SECONDS": "1e9",
    "AFTERTURN_HEALTH__QUARANTINE_GROWTH": "1000000",
}


@dataclass(frozen=True, slots=True)
class Target:
    """A running API process."""

    process: "subprocess.Popen[bytes]"
    port: int

    @contextmanager
    def connection(self) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as connection:
            yield connection

    def memory(self) -> int:
        return psutil.Process(self.process.pid).memory_info().rss

    def connections(self) -> int:
        """How many connections of clients are open."""
        found = psutil.Process(self.process.pid).net_connections("tcp")
        return sum(one.status == psutil.CONN_ESTABLISHED and one.laddr.port == self.port for one in found)

    def serves(self, source: str = "127.0.0.2") -> bool:
        """Say whether another address is answered."""
        transport = httpx.HTTPTransport(local_address=source)
        with httpx.Client(transport=transport, timeout=PATIENCE_S) as client:
            return client.get(f"http://127.0.0.1:{self.port}/health/live").status_code == 200


@pytest.fixture(scope="module")
def target(postgres: TestPostgres, valkey: TestValkey, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    port, folder = find_free_port(), tmp_path_factory.mktemp("limits")
    with (
        api(environment(folder, postgres, valkey, port) | LIMITS, folder) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as client,
    ):
        live(client, process)
        # What is made at first use is no growth.
        wait_until(lambda: not client.get("/health/ready").json()["reasons"], "the model is loaded")
        client.get("/openapi.json")
        yield Target(process, port)


def sent(connection: socket.socket, pieces: Iterable[bytes], pause_s: float = 0.0) -> bytes:
    """Send until all is sent or the other end closes; return what it said before it closed."""
    with suppress(ConnectionError):
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(pause_s)
    said = b""
    with suppress(ConnectionError):
        while received := connection.recv(65_536):
            said += received
    return said


def endless(start: bytes, piece: bytes, mib: int = 64) -> Iterator[bytes]:
    yield start
    for _ in range(mib * MIB // len(piece)):
        yield piece


@pytest.mark.parametrize(
    "start, piece",
    [
        (HEAD + b"X-Large: ", b"a" * 65_536),
        (b"GET /", b"a" * 65_536),
        (HEAD, b"X-Header: of many, and each of them a short one\r\n" * 1000),
    ],
    ids=["one header", "a URL", "many headers"],
)
def test_a_head_without_end_is_refused_and_its_bytes_are_not_kept(target: Target, start: bytes, piece: bytes) -> None:
    before = target.memory()
    with target.connection() as connection:
        said = sent(connection, endless(start, piece))
    assert said.startswith(b"HTTP/1.1 431 ")
    assert target.memory() - before < GROWTH
    assert target.serves()


@pytest.mark.parametrize(
    "start, piece",
    [
        (CHUNKED + b"0\r\n", b"X-Trailer: one of many\r\n" * 1000),
        (CHUNKED + b"0\r\nX-Trailer: ", b"a" * 65_536),
        (CHUNKED + b"5;extension=", b"a" * 65_536),
        (BODY.replace(b"100000", b"2000000"), b" " * 65_536),
        (
            BODY.replace(b"Content-Length: 100000", b"Transfer-Encoding: chunked")[:-1],
            b"10000\r\n" + b" " * 65_536 + b"\r\n",
        ),
    ],
    ids=["trailers", "one trailer", "an extension of a chunk", "more than was declared", "chunks"],
)
def test_a_body_without_end_is_cut_off_and_its_bytes_are_not_kept(target: Target, start: bytes, piece: bytes) -> None:
    before = target.memory()
    with target.connection() as connection:
        said = sent(connection, endless(start, piece))
    assert said == b"" or said.startswith(b"HTTP/1.1 4")
    assert target.memory() - before < GROWTH
    assert target.serves()


def test_a_head_that_comes_byte_by_byte_has_its_time_in_all_and_not_between_bytes(target: Target) -> None:
    with target.connection() as connection:
        assert sent(connection, endless(HEAD + b"X-Slow: ", b"a", 1), pause_s=0.1) == b""


def test_a_body_that_comes_byte_by_byte_has_its_time_in_all_and_is_cut_off(target: Target) -> None:
    with target.connection() as connection:
        said = sent(connection, endless(BODY, b" ", 1), pause_s=0.1)
    if said:  # The answer is lost where a byte came after the end.
        assert said.startswith(b"HTTP/1.1 408 ")


def test_bodies_half_sent_are_answered_with_408_and_none_of_their_connections_is_kept(target: Target) -> None:
    # At once, so that no collection of garbage closes one connection before the next is answered.
    halves = [socket.create_connection(("127.0.0.1", target.port), timeout=PATIENCE_S) for _ in range(6)]
    for half in halves:
        half.sendall(BODY)
    message = b'"code":"REQUEST_TIMEOUT","message":"the body did not arrive in its time: 1.5 s (api.body_seconds)'
    for half in halves:
        said = sent(half, ())
        assert said.startswith(b"HTTP/1.1 408 ")
        assert message in said
        half.close()


def test_heads_half_sent_take_no_place_from_others_and_are_gone_after_their_time(target: Target) -> None:
    before = target.memory()
    halves = [socket.create_connection(("127.0.0.1", target.port)) for _ in range(400)]
    for half in halves:
        half.sendall(HEAD)
    assert target.serves()
    assert target.serves("127.0.0.1")
    wait_until(lambda: target.connections() == 0, "no connection is left")
    assert target.memory() - before < GROWTH
    for half in halves:
        half.close()


def test_an_address_has_so_many_unfinished_requests_and_others_are_served(target: Target) -> None:
    # On a machine that is slow at this moment the first is over before the ninth begins: then once more.
    wait_until(lambda: one_of_nine_is_refused(target), "the ninth request of an address is refused")
    assert target.serves("127.0.0.1")


def one_of_nine_is_refused(target: Target) -> bool:
    """Send nine half bodies and say whether one was refused, another address served and all others ended with 408."""
    body = BODY.replace(b"\r\n\r\n", b"\r\nX-Forwarded-For: 10.1.2.3\r\n\r\n")
    halves = [socket.create_connection(("127.0.0.1", target.port), timeout=PATIENCE_S) for _ in range(9)]
    for half in halves:
        half.sendall(body)
    served = target.serves()
    said = sorted(sent(half, ()) for half in halves)
    for half in halves:
        half.close()
    assert served
    assert {one[:13] for one in said} <= {b"HTTP/1.1 408 ", b"HTTP/1.1 429 "}
    refused = [one for one in said if one.startswith(b"HTTP/1.1 429 ")]
    assert all(b"retry-after: 1\r\n" in one and b'"code":"RATE_LIMITED"' in one for one in refused)
    return len(refused) == 1


def test_a_request_after_many_in_one_go_is_answered_in_order(target: Target) -> None:
    ask = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    last = b"GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    with target.connection() as connection:
        said = sent(connection, [ask * 50 + last])
    assert said.count(b"HTTP/1.1 200 ") == 50
    assert said.rpartition(b"HTTP/1.1 ")[2].startswith(b"404 ")


def test_a_second_process_does_not_share_the_address_of_a_running_one(
    target: Target, postgres: TestPostgres, valkey: TestValkey, tmp_path: Path
) -> None:
    with api(environment(tmp_path, postgres, valkey, target.port), tmp_path) as second:
        assert second.wait(PATIENCE_S) == 2
    assert "Address already in use" in (tmp_path / "log").read_text()
