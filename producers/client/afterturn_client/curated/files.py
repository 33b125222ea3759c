"""Atomic files: a lock between processes, and writes that replace the file.

A write goes to a temporary file in the same folder, is synced, renamed over the old one, and the folder is synced:
readers, also after a power cut, see the old file or the new one.
"""

import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from afterturn_client.curated.errors import MemoryBusy, MemoryUnreadable

_LOCK = ".lock"
_UNFINISHED = ".unfinished"
_LOOK_AGAIN_S = 0.01


@contextmanager
def lock_folder(folder: Path, patience_s: float) -> Iterator[None]:
    """Hold the lock of a folder, which is created if missing (0700). Raises MemoryBusy after `patience_s` seconds."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _acquire_lock(handle, time.monotonic() + patience_s)
        try:
            yield
        finally:
            # Closing alone would not unlock it while a child process that was forked meanwhile is alive.
            fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)


def read_text(path: Path) -> str:
    """Return a file's text, '' when there is none. Raises MemoryUnreadable for what is not UTF-8."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        at = error.start
    raise MemoryUnreadable(f"{path.name} is not UTF-8 text (byte {at})")


def replace_text(path: Path, text: str) -> None:
    """Replace a file's text; `path` is no link. Call it under the folder's lock."""
    _remove_leftovers(path)
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(6)}{_UNFINISHED}")
    try:
        _write_file(unfinished, text.encode(), _file_mode(path))
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _acquire_lock(handle: int, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                break
            time.sleep(_LOOK_AGAIN_S)
        else:
            return
    raise MemoryBusy("another process has held the lock for too long; nothing was changed")


def _write_file(path: Path, content: bytes, mode: int) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(handle, "wb") as file:
        os.fchmod(handle, mode)
        file.write(content)
        file.flush()
        os.fsync(handle)


def _file_mode(path: Path) -> int:
    """Return the file's permissions, those of a private file for a new one."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return 0o600


def _remove_leftovers(target: Path) -> None:
    """Remove temporary files of killed writers; the lock ensures that no writer is at work."""
    for path in target.parent.glob(f".{target.name}.*{_UNFINISHED}"):
        path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
