"""A load balancer on loopback: each connection goes to the next server that takes it."""

import socket
import socketserver
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import cast

from deploy.local.ports import LOOPBACK

CHUNK_BYTES = 1 << 16


class RoundRobin(socketserver.ThreadingTCPServer):
    """Hands connections on in turn; `given` counts them by the port they went to."""

    daemon_threads = True

    def __init__(self, ports: Sequence[int]) -> None:
        super().__init__((LOOPBACK, 0), _Relay)
        self._ports = list(ports)
        self._lock = threading.Lock()
        self.given: Counter[int] = Counter()

    @property
    def url(self) -> str:
        """Return the address that clients use."""
        return f"http://{LOOPBACK}:{self.server_address[1]}"

    def reach_next(self) -> socket.socket | None:
        """Connect to the next server that takes it; None where none does."""
        with self._lock:
            self._ports.append(self._ports.pop(0))
            order = list(self._ports)
        for port in order:
            with suppress(ConnectionRefusedError):
                reached = socket.create_connection((LOOPBACK, port))
                self.given[port] += 1
                return reached
        return None


class _Relay(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        client = cast("socket.socket", self.request)
        server = cast("RoundRobin", self.server).reach_next()
        if server is None:
            return
        with server:
            back = threading.Thread(target=_pour, args=(server, client), daemon=True)
            back.start()
            _pour(client, server)
            back.join()


def _pour(source: socket.socket, sink: socket.socket) -> None:
    """Move bytes until a side ends; the other side is told by the end of its stream."""
    with suppress(OSError):  # a connection that was reset has ended
        while data := source.recv(CHUNK_BYTES):
            sink.sendall(data)
    for side in (source, sink):
        with suppress(OSError):
            side.shutdown(socket.SHUT_RDWR)


@contextmanager
def round_robin(ports: Sequence[int]) -> Iterator[RoundRobin]:
    """Run a load balancer before servers on these ports until the block ends."""
    with RoundRobin(ports) as balancer:
        serving = threading.Thread(target=balancer.serve_forever, daemon=True)
        serving.start()
        yield balancer
        balancer.shutdown()
        serving.join()
