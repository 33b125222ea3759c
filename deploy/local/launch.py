"""Executes a program that dies with its parent process.

    python -I -S launch.py PARENT_PID ORPHAN_SIGNAL UID GID PROGRAM [ARGUMENT...]

UID and GID are -1 to stay who we are. The kernel forgets the death signal when the user
changes, so the user changes first; and a parent that died before the signal was set is
noticed by asking who the parent is now. Only the standard library is imported, and nothing
after the user changed: the new one may not be able to read it. PROGRAM is a path.
"""

import ctypes
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1
FIRST_OF_PROGRAM = 5


def drop_privileges(uid: int, gid: int) -> None:
    """Give up the superuser for good."""
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def bind_to_parent(parent: int, orphan_signal: int) -> None:
    """Ask the kernel for `orphan_signal` when `parent` dies (Linux; elsewhere the next start tidies up)."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, orphan_signal, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the process that wanted this program is gone")


def main(arguments: list[str]) -> None:
    """Drop privileges, tie our life to the parent's, and become the program, which dumps no core."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a dump holds what was said; no user can undo it
    parent, orphan_signal, uid, gid = (int(argument) for argument in arguments[1:FIRST_OF_PROGRAM])
    if uid >= 0:
        drop_privileges(uid, gid)
    bind_to_parent(parent, orphan_signal)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and that would be inherited
    program = arguments[FIRST_OF_PROGRAM:]
    os.execv(program[0], program)  # noqa: S606  (becoming another program is the purpose)


if __name__ == "__main__":
    main(sys.argv)
