"""A gateway by bare sockets: it counts its connections, and ends or keeps them as a test says."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

FINE = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


class Talker:
    """Answers calls on connections it keeps, `answers` of them; then it takes one more and ends its connection.

    Or, if it `hangs`, says nothing to that one.
    """

    def __init__(self, answers: int = 1000, *, answer: bytes = FINE, hangs: bool = False) -> None:
        self.calls_of_connections: list[int] = []
        self.ended = 0
        self._answers, self._answer, self._hangs = answers, answer, hangs
        self._writers: list[asyncio.StreamWriter] = []

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        async with serving(self._talk) as url:
            yield url
            await self.hang_up()

    async def hang_up(self) -> None:
        for writer in self._writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
        self._writers.clear()

    async def say(self, unasked: bytes) -> None:
        for writer in self._writers:
            writer.write(unasked)
            await writer.drain()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        nth = len(self.calls_of_connections)
        self.calls_of_connections.append(0)
        while (head := await _head(reader)) is not None:
            await reader.readexactly(int(re.findall(rb"(?i)content-length: (\d+)", head)[0]))
            self.calls_of_connections[nth] += 1
            if sum(self.calls_of_connections) > self._answers:
                if not self._hangs:
                    break
                continue
            writer.write(self._answer)
        self.ended += 1
        writer.close()


@asynccontextmanager
async def serving(talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[str]:
    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def _head(reader: asyncio.StreamReader) -> bytes | None:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
