"""Ports on loopback."""

import random
import socket

LOOPBACK = "127.0.0.1"
# Below the range from which the kernel takes ports for outgoing connections: while a server restarts,
# a client that keeps dialling its port must not be given that very port as its own.
FIRST, LAST = 15000, 31999
ATTEMPTS = 200


def is_free(port: int) -> bool:
    """Say whether a server could listen on a port of 127.0.0.1 now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """Return a port nobody listens on; raises OSError when none was found."""
    for _ in range(ATTEMPTS):
        port = random.randint(FIRST, LAST)  # noqa: S311  (no secret: it only has to differ)
        if is_free(port):
            return port
    raise OSError("no free port between 15000 and 31999 on 127.0.0.1")
