"""The folder of a command's own servers: gone when the command is, or when the next one finds its owner dead."""

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from deploy.cli.deferred_interrupt import unbroken
from deploy.cli.output import say
from deploy.local import survivors
from deploy.local.cluster import homes
from deploy.local.folder_lock import FolderLock, FolderTaken, is_held

PREFIX = "afterturn-private-"
#: In a private folder: where its servers keep what is theirs.
DATA = "data"
#: The unit of `st_blocks`.
BLOCK_BYTES = 512
#: What is killed may still write for an instant.
TRIES, PAUSE_SECONDS = 100, 0.05


@dataclass(frozen=True, slots=True)
class Leftover:
    """What a command that was killed left: its private folder and root's database of that, or the latter alone."""

    places: tuple[Path, ...]


@contextmanager
def private_folder(name: str) -> Iterator[Path]:
    """Lend a folder that is locked for as long as we live; servers work in its folder `data`.

    Afterwards their processes are killed and folder and database removed; a Ctrl-C meanwhile waits for that. What
    commands that were killed left behind goes first. `name` is the command's, for people who look at the folder.
    """
    remove_leftovers()
    folder, lock = _made(name)
    try:
        yield folder
    except KeyboardInterrupt:
        say("interrupted: ending the servers of its own, and removing what they kept")
        raise
    finally:
        with unbroken():
            _remove((folder, *_databases(folder)))
            lock.release()


def leftovers() -> list[Leftover]:
    """Return what nobody works in any more: the owner's lock is free, and so are its servers'."""
    found = [Leftover((folder, *_databases(folder))) for folder in _private_folders()]
    found += [
        Leftover((home,))
        for home, data in homes()
        if data is not None and is_private(data.parent) and not data.parent.exists()
    ]
    return [one for one in found if not _at_work(one)]


def remove_leftovers() -> None:
    """Remove what commands that were killed left behind, and say so; what anybody else removes is left to him."""
    for left in leftovers():
        try:
            lock = FolderLock(left.places[0])
        except (FolderTaken, OSError):
            continue
        say(f"removing what a command that was killed left behind: {' and '.join(map(str, left.places))}")
        _remove(left.places)
        lock.release()


def is_private(folder: Path) -> bool:
    """Say whether a folder has the name of a private one."""
    return folder.name.startswith(PREFIX)


def size_of(folder: Path) -> int:
    """Return how many bytes a folder takes on disk, without what may not be seen."""
    size = 0
    for path in (Path(at) / name for at, _, names in os.walk(folder) for name in names):
        with suppress(OSError):
            size += path.lstat().st_blocks * BLOCK_BYTES
    return size


def _made(name: str) -> tuple[Path, FolderLock]:
    """Make a folder; it gets the name others know it by when it is locked, so that none is ever seen unlocked."""
    unlocked = Path(tempfile.mkdtemp(prefix=f"afterturn-unlocked-{name}-"))
    lock = FolderLock(unlocked)
    return unlocked.rename(unlocked.with_name(unlocked.name.replace("afterturn-unlocked-", PREFIX, 1))), lock


def _private_folders() -> Iterator[Path]:
    """Yield the private folders of this user; in a shared folder somebody else may use the name for a trap."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(FileNotFoundError):  # its owner removes it just now
            about = folder.lstat()
            if stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid():
                yield folder


def _databases(folder: Path) -> list[Path]:
    """Return where root's databases of a private folder lie; another user's lies within it."""
    return [home for home, data in homes() if data == folder.resolve() / DATA]


def _at_work(left: Leftover) -> bool:
    locked = (*left.places, left.places[0] / DATA)
    return any(map(is_held, locked)) or any(map(survivors.servers_in, left.places))


def _remove(places: tuple[Path, ...]) -> None:
    """Kill what works in these folders, and remove them."""
    data = places[0] / DATA
    for _ in range(TRIES):
        inside = [process for place in places for process in survivors.servers_in(place)]
        survivors.kill([*survivors.marked(data.resolve()), *inside])
        for place in places:
            shutil.rmtree(place, ignore_errors=True)
        if not any(place.exists() for place in places):
            return
        time.sleep(PAUSE_SECONDS)
