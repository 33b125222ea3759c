"""Executes a program that dies with its parent process.

    python -I -S launch.py PARENT_PID ORPHAN_SIGNAL UID GID PROGRAM [ARGUMENT...]

UID and GID are -1 to keep the current user. The kernel clears the death signal when the user
changes, so the user is changed first; a parent that died before the signal was set is noticed
by comparing the parent's process id. Only the standard library is imported, and nothing after
the change of user: the new one may not be able to read it. PROGRAM is a path.
"""

import ctypes
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1
FIRST_OF_PROGRAM = 5


def drop_privileges(uid: int, gid: int) -> None:
    """Change to this user and group permanently."""
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def bind_to_parent(parent: int, orphan_signal: int) -> None:
    """Have the kernel send `orphan_signal` when `parent` dies (Linux; elsewhere the next start ends survivors)."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, orphan_signal, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the process that started this program has ended")


def main(arguments: list[str]) -> None:
    """Drop privileges, bind this process to its parent, forbid core dumps, and execute the program."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a dump would hold stored texts; only root can undo it
    parent, orphan_signal, uid, gid = (int(argument) for argument in arguments[1:FIRST_OF_PROGRAM])
    if uid >= 0:
        drop_privileges(uid, gid)
    bind_to_parent(parent, orphan_signal)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores this signal, and the program would inherit that
    program = arguments[FIRST_OF_PROGRAM:]
    os.execv(program[0], program)  # noqa: S606  (becoming another program is the purpose)


if __name__ == "__main__":
    main(sys.argv)
