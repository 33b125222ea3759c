"""Connections under httpcore's pool, as its documented network backend: no more of a socket than one post needs.

A request leaves in one piece, with the first look for its answer; and nobody measures time here, since whoever calls
limits the whole of it. httpcore's own backend does both for every step, and that takes longer than all of its protocol.
"""

import asyncio
import select
from collections.abc import Iterable
from typing import Any, cast

import httpcore

#: Of what nobody has read yet so many bytes are held; the rest waits with whoever sends it.
HELD_BYTES = 1 << 20


class Wires(httpcore.AsyncNetworkBackend):
    """Opens connections, without TLS, and tells of them whether anything of a request has `begun` to leave.

    Set `begun` back before a request. Belongs to one event loop; one request at a time.
    """

    def __init__(self) -> None:
        self.begun = False

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002, ASYNC109 - the interface is httpcore's
        local_address: str | None = None,  # noqa: ARG002
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,  # noqa: ARG002
    ) -> httpcore.AsyncNetworkStream:
        """Return an open connection. Raises httpcore.ConnectError."""
        try:
            _, wire = await asyncio.get_running_loop().create_connection(lambda: Wire(self), host, port)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(type(error).__name__) from error
        return wire


class Wire(asyncio.Protocol, httpcore.AsyncNetworkStream):
    """One connection. What is written leaves when it is read next."""

    _transport: asyncio.Transport

    def __init__(self, told: Wires) -> None:
        self._told = told
        self._leaving: list[bytes] = []
        self._come = bytearray()
        self._ended = self._broken = self._paused = False
        self._waiting: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take what the event loop has opened."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Keep what came until it is read."""
        self._come += data
        if len(self._come) > HELD_BYTES and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """Note that nothing more will come; the event loop closes this side too."""
        self._ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note how it ended."""
        self._ended, self._broken = True, exc is not None
        self._wake()

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109
        """Have something leave with what is written next to it."""
        self._leaving.append(buffer)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002, ASYNC109
        """Let leave what was written, and return what came; nothing when it ended. Raises httpcore.ReadError."""
        if self._leaving:
            self._told.begun = True
            self._transport.write(b"".join(self._leaving))
            self._leaving.clear()
        while not self._come and not self._ended:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        if self._broken and not self._come:
            raise httpcore.ReadError("the connection broke")
        come = bytes(self._come[:max_bytes])
        del self._come[:max_bytes]
        if self._paused and not self._ended and len(self._come) <= HELD_BYTES:
            self._paused = False
            self._transport.resume_reading()
        return come

    async def aclose(self) -> None:
        """End it at once: what has not left yet does not leave any more."""
        self._transport.abort()

    def get_extra_info(self, info: str) -> Any:
        """Return what httpcore asks of a connection that idles: whether it is good for nothing any more."""
        return self._spoilt() or self._has_come() if info == "is_readable" else None

    def _spoilt(self) -> bool:
        """Say whether it ended, holds what nobody asked for, or is still busy with a request that is answered."""
        return self._ended or bool(self._come) or self._transport.get_write_buffer_size() > 0

    def _has_come(self) -> bool:
        """Ask the system, which knows sooner than the event loop, whether something came: most often the end."""
        look = select.poll()
        look.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(look.poll(0))

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
