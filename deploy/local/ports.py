"""Finds free TCP ports on loopback, and the process that uses one."""

import atexit
import errno
import secrets
import socket
import sys
from collections import deque

import psutil

LOOPBACK = "127.0.0.1"
# Below the kernel's range of ports for outgoing connections: while a server restarts, a client that keeps
# connecting to its port must not be assigned that very port as its local one.
FIRST, LAST = 15000, 31999
ATTEMPTS = 200
#: The most ports that a process reserves, the last ones.
MOST_RESERVED = 100
#: Sockets that are bound to these ports and do not listen.
_reserved: deque[socket.socket] = deque()


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Return whether a server could listen on a port now."""
    return find_bind_error(port, host) is None


def find_bind_error(port: int, host: str = LOOPBACK) -> OSError | None:
    """Return why no server can listen on a port now; None where one can.

    EADDRINUSE: another process does; EACCES: the port is for root; any other: `host` is no address of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error
        except UnicodeError:
            return OSError(errno.EADDRNOTAVAIL, "not a host name")
    return None


def find_free_port() -> int:
    """Return a free port; raises OSError when none was found.

    On Linux it is reserved for this process and its children: servers, which set SO_REUSEADDR or SO_REUSEPORT, can
    listen on it, and no other process finds it.
    """
    for _ in range(ATTEMPTS):
        port = secrets.choice(range(FIRST, LAST + 1))  # not `random`: a library may give two processes the same seed
        if _reserve(port):
            return port
    raise OSError("no free port between 15000 and 31999 on 127.0.0.1")


def _reserve(port: int) -> bool:
    holder = socket.socket()
    try:
        # Without SO_REUSEADDR yet: this fails where another reservation is, which a server would not notice.
        holder.bind((LOOPBACK, port))
    except OSError:
        holder.close()
        return False
    if sys.platform == "linux":  # elsewhere a socket that is bound keeps every server away
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            holder.setsockopt(socket.SOL_SOCKET, option, 1)
        _reserved.append(holder)
        _release(MOST_RESERVED)
    else:
        holder.close()
    return True


def _release(kept: int = 0) -> None:
    """End all reservations but the last ones."""
    while len(_reserved) > kept:
        _reserved.popleft().close()


atexit.register(_release)


def describe_port_user(port: int) -> str:
    """Return the process that uses a port, as ` (process 12, nginx)`; '' when this user cannot see it."""
    try:
        found = [one.pid for one in psutil.net_connections("tcp") if one.laddr and one.laddr.port == port and one.pid]
        return f" (process {found[0]}, {psutil.Process(found[0]).name()})" if found else ""
    except psutil.Error:
        return ""
