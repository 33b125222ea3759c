"""How a process of ours is set up: without core dumps, with its priority, its objects out of the collector's way."""

import gc
import os
import resource
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

# The server's process at the other end, and the port of ours that it serves.
BACKEND_OF_CONNECTION = "select pg_backend_pid(), inet_client_port()"


def forbid_core_dumps() -> None:
    """Forbid core dumps, which hold what was said and keys, for this process and all it starts.

    Nothing they may do undoes that, unless they are root. PR_SET_DUMPABLE stays as it is: without it root alone could
    read the environment by which `afterturn up` finds processes that an earlier run left behind.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def freeze_loaded_objects() -> None:
    """Take what is loaded by now out of the collector's sight; its full walk would hold up every answer meanwhile."""
    gc.collect()
    gc.freeze()


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
