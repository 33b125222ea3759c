"""The HTTP server: Granian, within this process and on its event loop.

It limits what happens before the application sees a request: the bytes of a request's head (request line and headers
together; more is answered with a bare 431), the total time for a head (after which the connection is closed, as is one
that idles for so long), and concurrent connections; `deploy/api/connections.py` closes silent ones where there are too
many. `producers.http.limits` limits what comes after the head.
"""

import asyncio
import resource
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import structlog
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.embed import Server

from deploy.api.connections import ConnectionLimit
from producers.settings import ApiSettings
from store.concurrent_calls import run_meanwhile

#: Connections that wait to be accepted.
BACKLOG = 2048
#: Files that a process needs beside its clients' connections: pools, samples, logs.
SPARE_FILES = 256
#: Connections that are always allowed, however few open files the system grants.
LEAST_CONNECTIONS = 64
#: How long requests may take to end when the server is told to stop, in seconds.
GRACE_S = 10.0
#: Who may connect to a Unix socket.
OWNER_ALONE = 0o600
#: Granian's log lines go where those of other libraries go (deploy/observability/logs.py), none to standard output.
LOGGED: dict[str, Any] = {"loggers": {"_granian": {"propagate": True}}}

log = structlog.get_logger("afterturn.api")


async def serve_application(
    app: Any, host: str, port: int, settings: ApiSettings, ending: asyncio.Event, *, path: Path | None = None
) -> None:
    """Serve an ASGI application on a numeric address until `ending` is set; running requests are answered first.

    `path`: listen on this Unix socket instead, which only its owner can open.
    The application's lifespan is the caller's. Raises the server's error when it cannot listen.
    """
    most = reserve_connections(settings.max_connections)
    limit = ConnectionLimit(settings, port, most)
    server = Server(
        limit.watch_requests(app) if path is None else app,
        address=host,
        port=port,
        uds=path,
        interface=Interfaces.ASGINL,
        http=HTTPModes.http1,
        websockets=False,
        backlog=BACKLOG,
        backpressure=most,
        http1_settings=HTTP1Settings(
            header_read_timeout=round(settings.head_seconds * 1000), max_buffer_size=settings.max_head_bytes
        ),
        log_level=LogLevels.error,
        log_dictconfig=LOGGED,
    )
    server.uds_permissions = OWNER_ALONE
    async with nullcontext() if path is not None else run_meanwhile(limit.run(), "connections"):
        await _serve_until(server, ending)


async def _serve_until(server: Server, ending: asyncio.Event) -> None:
    serving = asyncio.create_task(server.serve(), name="serve HTTP")
    told = asyncio.create_task(ending.wait(), name="wait for the end")
    await asyncio.wait((serving, told), return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    server.stop()  # type: ignore[no-untyped-call]  # the library leaves it without annotations
    done, _ = await asyncio.wait((serving,), timeout=GRACE_S)
    if done:
        serving.result()
    else:
        log.warning("requests_cut_off_at_stop", waited_s=GRACE_S)
        serving.cancel()


def reserve_connections(wanted: int) -> int:
    """Raise the process's limit of open files for `wanted` connections; return how many connections it then allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    open_files = needed if soft == resource.RLIM_INFINITY else soft
    return max(min(wanted, open_files - SPARE_FILES), LEAST_CONNECTIONS)
