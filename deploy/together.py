"""An answer's head leaves together with its body.

The server hands them to the system one after the other. Whoever waits for the answer is woken by the head already, and
may keep the processor from the server before the body has left.
"""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD = b"HTTP/1.1 "


class Together:
    """A transport that holds back a head until what follows it, or until the loop's next turn; else as the real one."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._head = b""

    def write(self, data: bytes) -> None:
        """Send, or hold back what is the head of an answer."""
        if self._head:
            self._transport.write(self._taken() + data)
        elif data.startswith(HEAD):
            self._head = data
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def close(self) -> None:
        """Send what is held back, and close."""
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        """Return what else a transport has."""
        return getattr(self._transport, name)

    def _flush(self) -> None:
        if self._head:
            self._transport.write(self._taken())

    def _taken(self) -> bytes:
        head, self._head = self._head, b""
        return head


class TogetherProtocol(HttpToolsProtocol):
    """The server's own protocol on such transports."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the server's own
        """Begin to serve a connection."""
        super().connection_made(cast("asyncio.Transport", Together(transport, self.loop)))
