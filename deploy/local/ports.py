"""Ports on loopback."""

import secrets
import socket

import psutil

LOOPBACK = "127.0.0.1"
# Below the range from which the kernel takes ports for outgoing connections: while a server restarts,
# a client that keeps dialling its port must not be given that very port as its own.
FIRST, LAST = 15000, 31999
ATTEMPTS = 200


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Say whether a server could listen on a port now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def find_free_port() -> int:
    """Return a free port; raises OSError when none was found."""
    for _ in range(ATTEMPTS):
        port = secrets.choice(range(FIRST, LAST + 1))  # not `random`: a library may seed it alike in two processes
        if is_free(port):
            return port
    raise OSError("no free port between 15000 and 31999 on 127.0.0.1")


def describe_port_user(port: int) -> str:
    """Say who listens on a port, as far as we may see: ` (process 12, nginx)`, or nothing."""
    try:
        found = [one.pid for one in psutil.net_connections("tcp") if one.laddr and one.laddr.port == port and one.pid]
        return f" (process {found[0]}, {psutil.Process(found[0]).name()})" if found else ""
    except psutil.Error:
        return ""
