"""Serves an ASGI application on loopback as long as a test needs it."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn

from tests.patience import PATIENCE_S, wait_until


class TestServer(uvicorn.Server):
    """A server that leaves signals alone: uvicorn takes those of the whole process while it serves."""

    __test__ = False

    def __init__(self, app: Any) -> None:
        config = uvicorn.Config(app, log_level="critical", lifespan="off", ws="none", timeout_graceful_shutdown=1)
        super().__init__(config)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serve(app: Any, port: int = 0) -> AsyncIterator[str]:
    """Serve an application in the test's event loop; yields its URL. Port 0 is a free one."""
    with socket.create_server(("127.0.0.1", port)) as listening:
        server = TestServer(app)
        served = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await served


@contextmanager
def serve_in_thread(app: Any, port: int = 0) -> Iterator[str]:
    """Serve an application in a thread with an event loop of its own; yields its URL. Port 0 is a free one."""
    with socket.create_server(("127.0.0.1", port)) as listening:
        server = TestServer(app)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        wait_until(lambda: server.started, "a server on loopback has started")
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)
