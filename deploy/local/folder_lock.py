"""The lock of a data folder, released by the kernel when its holder dies."""

import fcntl
import os
import time
from pathlib import Path

NAME = "lock"
#: How long an attempt retries: `is_held` also takes the lock for an instant.
PATIENCE_SECONDS = 0.5


class FolderInUse(Exception):
    """Another process works in this data folder."""


class FolderLock:
    """An exclusive lock on an existing folder, held until `release` or the end of this process."""

    def __init__(self, folder: Path) -> None:
        """Take the lock; raises FolderInUse, whose text names the process that holds it."""
        self._folder = folder
        self._file = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o600)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not _try_lock(self._file, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                raise FolderInUse(self._describe_holder())
            time.sleep(0.02)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        """Release the lock."""
        os.close(self._file)

    def _describe_holder(self) -> str:
        holder = os.pread(self._file, 20, 0).decode(errors="replace") or "?"
        os.close(self._file)
        return f"the data folder {self._folder} is in use by process {holder}: stop that one, or use another --data"


def is_held(folder: Path) -> bool:
    """Return whether a process holds the lock of a folder now."""
    try:
        file = os.open(folder / NAME, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _try_lock(file, fcntl.LOCK_SH)
    finally:
        os.close(file)


def _try_lock(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
