"""Process priorities: workers run below the API, and PostgreSQL's processes that serve them half as far below."""

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

# The server's process at the other end, and the port of ours that it serves.
BACKEND_OF_CONNECTION = "select pg_backend_pid(), inet_client_port()"


def lower_priority(nice: int) -> None:
    """Lower this process's priority, so that API, database and broker go first when the processor is busy."""
    os.nice(nice)
    if nice:
        _set_session_weight(os.getpid(), nice)


def lower_backend_priority(nice: int) -> Callable[[Any], Awaitable[None]]:
    """Return what has the server's process behind a new connection step back half as far as we do.

    Half, because a backend holds locks that other commits wait for.
    Where it runs on another machine, or is not ours to tell, it stays as it is.
    """
    its = nice // 2

    async def bring_along(connection: Any) -> None:
        process, port = await connection.fetchrow(BACKEND_OF_CONNECTION)
        if is_serving_backend(process, port):
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, process, its)
                _set_session_weight(process, its)

    return bring_along


def is_serving_backend(process: int, port: int | None) -> bool:
    """Say whether a process of this machine is a PostgreSQL server's that serves this port of ours."""
    try:
        title = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False
    return port is not None and title.startswith(b"postgres: ") and b"(%d)" % port in title


def _set_session_weight(process: int, nice: int) -> None:
    """Where the system shares the processor by session, its weight counts: set it, if the process leads the session."""
    with suppress(OSError):
        if os.getsid(process) == process:
            Path(f"/proc/{process}/autogroup").write_text(str(nice), encoding="ascii")
