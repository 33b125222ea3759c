"""Silent connections without a key leave room: those of one address, and those of many."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from deploy.api import connections
from deploy.api.connections import ConnectionLimit
from deploy.local.ports import find_free_port
from producers.settings import ApiSettings
from tests.deploy.api.test_http_limits import Target
from tests.deploy.api.test_process import api, environment, live
from tests.patience import PATIENCE_S, wait_until
from tests.servers import TestPostgres, TestValkey

pytestmark = pytest.mark.slow

OF_ADDRESS, OF_ALL = 16, 128
LIMITS = {
    # A silent connection is not closed for its age in this test.
    "AFTERTURN_API__HEAD_SECONDS": "60",
    "AFTERTURN_API__MAX_CONNECTIONS_PER_ADDRESS": str(OF_ADDRESS),
    "AFTERTURN_API__MAX_CONNECTIONS": str(OF_ALL),
}


@pytest.fixture(scope="module")
def target(postgres: TestPostgres, valkey: TestValkey, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    port, folder = find_free_port(), tmp_path_factory.mktemp("connections")
    with api(environment(folder, postgres, valkey, port) | LIMITS, folder) as process:
        # The connection of this client is closed: it would be counted with those of the tests.
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as client:
            live(client, process)
        yield Target(process, port)


@contextmanager
def silent(target: Target, number: int, *addresses: str) -> Iterator[list[socket.socket]]:
    """Hold as many connections of each address that say nothing."""
    with ExitStack() as held:
        yield [
            held.enter_context(
                socket.create_connection(("127.0.0.1", target.port), timeout=PATIENCE_S, source_address=(address, 0))
            )
            for address in addresses
            for _ in range(number)
        ]


def test_of_an_address_with_too_many_connections_the_oldest_silent_ones_are_closed(target: Target) -> None:
    with silent(target, 100, "127.0.0.5") as opened:
        wait_until(lambda: target.connections() <= OF_ADDRESS, "those beyond the limit are closed")
        assert opened[0].recv(1) == b"", "the oldest was closed"
        # Of those that one look finds new, it cannot tell the older one.
        with silent(target, 1, "127.0.0.5") as [newest]:
            wait_until(lambda: target.connections() <= OF_ADDRESS, "one of the older ones made room")
            newest.sendall(b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert newest.recv(12) == b"HTTP/1.1 200"
            assert target.serves()
    wait_until(lambda: target.connections() == 0, "none is left")


def test_silent_connections_of_many_addresses_make_room_for_others(target: Target) -> None:
    addresses = [f"127.0.1.{n}" for n in range(1, 31)]
    with silent(target, OF_ADDRESS // 2, *addresses):
        for _ in range(8):
            assert target.serves(), "a newcomer is answered although more than fit have connected"
        wait_until(lambda: target.connections() <= 0.75 * OF_ALL, "there is room")
    wait_until(lambda: target.connections() == 0, "none is left")


def test_a_connection_whose_request_is_being_answered_is_not_closed(target: Target) -> None:
    body = b"POST /memories/add HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\n{"
    with silent(target, 1, "127.0.0.6") as [busy]:
        busy.sendall(body)
        with silent(target, 100, "127.0.0.6"):
            wait_until(lambda: target.connections() <= OF_ADDRESS, "those beyond the limit are closed")
            busy.sendall(b"}")
            assert busy.recv(12).startswith(b"HTTP/1.1 4"), "its request has its answer"


def test_few_connections_are_looked_at_where_an_address_may_have_fewer_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "FEW", 100_000)
    with ExitStack() as held:
        listening = held.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = listening.getsockname()[1]
        limit = ConnectionLimit(ApiSettings(max_connections_per_address=2), port, most=1000)
        for _ in range(4):
            held.enter_context(socket.create_connection(("127.0.0.1", port)))
            held.enter_context(listening.accept()[0])
        wait_until(lambda: limit.close_silent() == 2, "two of four are closed", pause_s=0.1)
