"""The temporary folder of a command's private servers: removed at its end, or by a later command if it was killed."""

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from deploy.local import survivors
from deploy.local.child import LOGS
from deploy.local.cluster import list_cluster_folders
from deploy.local.deferred_interrupt import defer_interrupt
from deploy.local.folder_lock import FolderInUse, FolderLock, is_held
from deploy.notices import print_notice

PREFIX = "afterturn-private-"
#: The servers' data folder, within a private folder.
DATA = "data"
INTERRUPTED = "interrupted: ending the servers of its own, and removing what they kept"
#: Unit of `st_blocks`, in bytes.
BLOCK_BYTES = 512
#: Attempts to remove a folder, and the pause between two: killed processes may still write for an instant.
TRIES, PAUSE_SECONDS = 100, 0.05


@dataclass(frozen=True, slots=True)
class OrphanedFolders:
    """Leftovers of a killed command: its private folder and root's database of that, or only the latter."""

    places: tuple[Path, ...]


@contextmanager
def open_private_folder(name: str) -> Iterator[Path]:
    """Yield a temporary folder that is locked while this process lives; servers work in its subfolder `data`.

    Afterwards their processes are killed, and folder and database are removed; a Ctrl-C waits for that. When the block
    raises an Exception, the servers' logs are copied elsewhere first, and a notice says where. Leftovers of killed
    commands are removed before all. `name`, the command's, becomes part of the folder's name.
    """
    remove_orphaned_folders()
    folder, lock = _create_locked_folder(name)
    try:
        yield folder
    except Exception:
        _keep_logs(folder / DATA / LOGS, name)
        raise
    except KeyboardInterrupt as interrupt:
        if INTERRUPTED not in getattr(interrupt, "__notes__", ()):  # a folder that was opened later has said it
            interrupt.add_note(INTERRUPTED)
            print_notice(INTERRUPTED)
        raise
    finally:
        with defer_interrupt():
            _remove_folders((folder, *_find_databases(folder)))
            lock.release()


def find_orphaned_folders() -> list[OrphanedFolders]:
    """Return orphaned folders: those whose owner's lock and whose servers' locks are free."""
    found = [OrphanedFolders((folder, *_find_databases(folder))) for folder in _list_private_folders()]
    found += [
        OrphanedFolders((home,))
        for home, data in list_cluster_folders()
        if data is not None and is_private(data.parent) and not data.parent.exists()
    ]
    return [one for one in found if not _is_in_use(one)]


def remove_orphaned_folders() -> None:
    """Remove leftovers of killed commands, and print a notice; skip those that another process is removing."""
    for left in find_orphaned_folders():
        try:
            lock = FolderLock(left.places[0])
        except (FolderInUse, OSError):
            continue
        print_notice(f"removing what a command that was killed left behind: {' and '.join(map(str, left.places))}")
        _remove_folders(left.places)
        lock.release()


def is_private(folder: Path) -> bool:
    """Return whether a folder has the name of a private folder."""
    return folder.name.startswith(PREFIX)


def measure_folder(folder: Path) -> int:
    """Return the bytes that a folder takes on disk, as far as this user can read it."""
    size = 0
    for path in (Path(at) / name for at, _, names in os.walk(folder) for name in names):
        with suppress(OSError):
            size += path.lstat().st_blocks * BLOCK_BYTES
    return size


def _create_locked_folder(name: str) -> tuple[Path, FolderLock]:
    """Create and lock a private folder; it gets its final name when it is locked, so that none is seen unlocked."""
    unlocked = Path(tempfile.mkdtemp(prefix=f"afterturn-unlocked-{name}-"))
    lock = FolderLock(unlocked)
    return unlocked.rename(unlocked.with_name(unlocked.name.replace("afterturn-unlocked-", PREFIX, 1))), lock


def _keep_logs(logs: Path, name: str) -> None:
    """Copy the logs of servers that are about to be removed: they tell why a command failed."""
    if not logs.is_dir() or not any(logs.iterdir()):
        return
    try:
        kept = Path(tempfile.mkdtemp(prefix=f"afterturn-logs-{name}-"))
        shutil.copytree(logs, kept, dirs_exist_ok=True)
    except (OSError, shutil.Error) as error:
        print_notice(f"logs of its servers could not all be kept: {error}")
    else:
        print_notice(f"logs of its servers are kept in {kept}; remove it when you have read them")


def _list_private_folders() -> Iterator[Path]:
    """Yield the private folders of this user; others' are skipped: in a shared folder such a name may be a trap."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(FileNotFoundError):  # its owner is removing it
            about = folder.lstat()
            if stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid():
                yield folder


def _find_databases(folder: Path) -> list[Path]:
    """Return the folders of root's databases of a private folder; other users' databases are within it."""
    return [home for home, data in list_cluster_folders() if data == folder.resolve() / DATA]


def _is_in_use(left: OrphanedFolders) -> bool:
    locked = (*left.places, left.places[0] / DATA)
    return any(map(is_held, locked)) or any(map(survivors.find_servers, left.places))


def _remove_folders(places: tuple[Path, ...]) -> None:
    """Kill the processes that work in these folders, and remove the folders."""
    data = places[0] / DATA
    for _ in range(TRIES):
        inside = [process for place in places for process in survivors.find_servers(place)]
        survivors.kill_processes([*survivors.find_marked_processes(data.resolve()), *inside])
        for place in places:
            shutil.rmtree(place, ignore_errors=True)
        if not any(place.exists() for place in places):
            return
        time.sleep(PAUSE_SECONDS)
