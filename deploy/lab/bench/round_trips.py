"""Counts round trips by a loopback relay in front of a server."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

CHUNK = 65536


class CountingRelay:
    """Relays bytes between a client and a server, and counts how often the client sends after the server has sent."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self.trips = 0

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay one client's connection until either side closes it."""
        server_reader, server_writer = await asyncio.open_connection(self._host, self._port)
        turn = _LastSpeaker()
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, server_writer, turn, from_client=True))
                both.create_task(self._pump(server_reader, writer, turn, from_client=False))
        finally:
            writer.close()
            server_writer.close()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, turn: "_LastSpeaker", *, from_client: bool
    ) -> None:
        while data := await source.read(CHUNK):
            if from_client and not turn.is_clients:
                self.trips += 1
            turn.is_clients = from_client
            sink.write(data)
            await sink.drain()
        sink.close()


class _LastSpeaker:
    """The side that sent last on a connection."""

    def __init__(self) -> None:
        self.is_clients = False


@asynccontextmanager
async def count_round_trips(host: str, port: int) -> AsyncGenerator[tuple[CountingRelay, int]]:
    """Yield a relay in front of a server, and the local port it listens on."""
    relay = CountingRelay(host, port)
    server = await asyncio.start_server(relay.relay, "127.0.0.1", 0)
    try:
        yield relay, server.sockets[0].getsockname()[1]
    finally:
        server.close()
