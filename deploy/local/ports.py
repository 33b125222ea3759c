"""Finds free TCP ports on loopback, and the process that uses one."""

import secrets
import socket

import psutil

LOOPBACK = "127.0.0.1"
# Below the kernel's range of ports for outgoing connections: while a server restarts, a client that keeps
# connecting to its port must not be assigned that very port as its local one.
FIRST, LAST = 15000, 31999
ATTEMPTS = 200


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Return whether a server could listen on a port now."""
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
        port = secrets.choice(range(FIRST, LAST + 1))  # not `random`: a library may give two processes the same seed
        if is_free(port):
            return port
    raise OSError("no free port between 15000 and 31999 on 127.0.0.1")


def describe_port_user(port: int) -> str:
    """Return the process that uses a port, as ` (process 12, nginx)`; '' when this user cannot see it."""
    try:
        found = [one.pid for one in psutil.net_connections("tcp") if one.laddr and one.laddr.port == port and one.pid]
        return f" (process {found[0]}, {psutil.Process(found[0]).name()})" if found else ""
    except psutil.Error:
        return ""
