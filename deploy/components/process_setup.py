"""Sets up a process of the service: no core dumps, its priority, loaded objects exempt from garbage collection."""

import gc
import os
import resource
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

#: Objects made, passes over these, and passes over those that outlived one, after which the next pass comes.
COLLECTED_AFTER = 10_000, 10, 50
# The process id of the connection's backend, and our port of that connection.
BACKEND_OF_CONNECTION = "select pg_backend_pid(), inet_client_port()"


def forbid_core_dumps() -> None:
    """Forbid core dumps, which would hold stored texts and keys, for this process and its children.

    Only root can undo that. PR_SET_DUMPABLE stays set: without it only root could read the environment by which
    `afterturn up` finds processes that an earlier run left behind.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@contextmanager
def importing() -> Iterator[None]:
    """Let no pass of the garbage collector come during the block, and exempt from later ones what it loads.

    Imports leave next to no garbage, and passes over what they make take a fifth of the time of a start.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def freeze_loaded_objects() -> None:
    """Exempt all objects loaded so far from garbage collection, and let its passes over newer ones come seldom.

    A pass stops every thread: 50 ms for the objects of a few long texts. Python makes full ones twice a second where
    many objects are made, since it compares with the number of old ones, of which few are left here.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED_AFTER)


def lower_priority(nice: int) -> None:
    """Add `nice` to this process's niceness, so that API, database and broker go first when the processor is busy."""
    os.nice(nice)
    if nice:
        _set_session_weight(os.getpid(), nice)


def lower_backend_priority(nice: int) -> Callable[[Any], Awaitable[None]]:
    """Return a callback for new connections that gives the server's backend half of this niceness.

    Half, because a backend holds locks that other commits wait for. A backend on another machine, or one whose priority
    this process may not change, keeps its priority.
    """
    its = nice // 2

    async def set_backend_priority(connection: Any) -> None:
        process, port = await connection.fetchrow(BACKEND_OF_CONNECTION)
        if is_serving_backend(process, port):
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, process, its)
                _set_session_weight(process, its)

    return set_backend_priority


def is_serving_backend(process: int, port: int | None) -> bool:
    """Return whether a process on this machine is the PostgreSQL backend that serves this client port of ours."""
    try:
        title = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False
    return port is not None and title.startswith(b"postgres: ") and b"(%d)" % port in title


def _set_session_weight(process: int, nice: int) -> None:
    """Set the niceness of a session's autogroup if the process leads the session: Linux may schedule by session."""
    with suppress(OSError):
        if os.getsid(process) == process:
            Path(f"/proc/{process}/autogroup").write_text(str(nice), encoding="ascii")
