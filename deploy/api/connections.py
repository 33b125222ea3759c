"""Closes silent connections of clients: of an address that has too many, and of all where room gets scarce.

The HTTP server counts connections alone: 4,500 of one machine that say nothing would leave no room for others until
each had idled for its time. A connection is silent while no request of it is being answered; of these, those that were
silent longest are closed first. A client sees what it sees when its connection has idled too long.
"""

import asyncio
import os
import socket
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import structlog
from prometheus_client import Counter as Counted
from starlette.types import ASGIApp, Receive, Scope, Send

from producers.http.limits import name_peer
from producers.settings import ApiSettings

#: Seconds between two looks, and for which a connection may be silent however many there are.
EVERY_S, SILENT_S = 0.25, 1.0
#: The share of all connections from which on silent ones are closed.
SCARCE = 0.75
#: With fewer open files than this, nothing is looked at, unless an address may have fewer connections.
FEW = 64
INTERNET = (socket.AF_INET, socket.AF_INET6)

CLOSED = Counted("afterturn_connections_closed", "Silent connections that were closed to keep room for others", ["why"])

log = structlog.get_logger("afterturn.api")

#: The client's end of a connection: its address and port.
Peer = tuple[str, int]


@dataclass(slots=True)
class ConnectionLimit:
    """Watches the connections of one listening address; wrap the application it serves with `watch_requests`."""

    settings: ApiSettings
    port: int
    #: The most connections, by the settings and the limit of open files.
    most: int
    _busy: Counter[Peer] = field(default_factory=Counter)
    #: Since when each connection has been silent.
    _since: dict[Peer, float] = field(default_factory=dict)

    def watch_requests(self, app: ASGIApp) -> ASGIApp:
        """Return the application; meanwhile a connection is not silent."""

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            client = scope.get("client")
            if client is None:
                await app(scope, receive, send)
                return
            peer = client[0], int(client[1])  # the server gives the port as text
            self._busy[peer] += 1
            try:
                await app(scope, receive, send)
            finally:
                self._busy[peer] -= 1
                if not self._busy[peer]:
                    del self._busy[peer]
                self._since[peer] = time.monotonic()

        return watched

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await asyncio.to_thread(self.close_silent)
            except OSError as error:
                log.warning("connections_unknown", error=type(error).__name__)

    def close_silent(self) -> int:
        """Close silent connections as far as there are too many; return how many. Raises OSError."""
        few = min(FEW, self.settings.max_connections_per_address)
        if len(os.listdir("/dev/fd")) < few:  # noqa: PTH208 - names alone, four times a second
            self._since.clear()
            return 0
        connections = dict[Peer, socket.socket]()
        try:
            for peer, copied in self._list_connections():
                # Another look in this process has copies, too: a second one of a connection is of no use.
                if connections.setdefault(peer, copied) is not copied:
                    copied.close()
            return self._close(connections)
        finally:
            for one in connections.values():
                one.close()

    def _close(self, connections: dict[Peer, socket.socket]) -> int:
        now, busy = time.monotonic(), self._busy.copy()
        self._since = {peer: self._since.get(peer, now) for peer in connections}
        silent = [peer for peer in connections if peer not in busy and now - self._since[peer] >= SILENT_S]
        silent.sort(key=self._since.__getitem__)
        surplus = self._choose_of_addresses(connections, silent)
        scarce = max(0, len(connections) - len(surplus) - round(SCARCE * self.most))
        rest = [peer for peer in silent if peer not in surplus][:scarce]
        for peers, why in ((surplus, "address"), (rest, "scarce")):
            for peer in peers:
                self._end(connections[peer], why)
        return len(surplus) + len(rest)

    def _choose_of_addresses(self, connections: Collection[Peer], silent: Sequence[Peer]) -> Collection[Peer]:
        """Return the silent connections of addresses that have too many; a trusted proxy may have any number."""
        left, surplus = Counter(self._name(peer) for peer in connections), dict[Peer, None]()
        for peer in silent:
            address = self._name(peer)
            if address is not None and left[address] > self.settings.max_connections_per_address:
                surplus[peer] = None
                left[address] -= 1
        return surplus

    def _name(self, peer: Peer) -> str | None:
        return name_peer(peer[0], self.settings.trusted_proxies)

    def _end(self, connection: socket.socket, why: str) -> None:
        CLOSED.labels(why).inc()
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def _list_connections(self) -> Iterator[tuple[Peer, socket.socket]]:
        """Yield the connections to this address, each by a copy of its descriptor, which names the same connection."""
        for descriptor in sorted(map(int, os.listdir("/dev/fd"))):  # noqa: PTH208 - names alone, four times a second
            copied = _copy_socket(descriptor)
            if copied is None:
                continue
            with suppress(OSError):
                if copied.family in INTERNET and copied.getsockname()[1] == self.port:
                    peer = copied.getpeername()
                    yield (peer[0], peer[1]), copied
                    continue
            copied.close()


def _copy_socket(descriptor: int) -> socket.socket | None:
    """Return a copy of a descriptor as a socket; None for a descriptor that is none, or was closed meanwhile."""
    try:
        copied = os.dup(descriptor)
    except OSError:
        return None
    try:
        return socket.socket(fileno=copied)
    except OSError:
        os.close(copied)
        return None
