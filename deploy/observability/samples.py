"""Files of metrics samples whose disk space is reserved before processes map them into memory.

prometheus_client makes sparse files: on a full disk, the first write to a page without a block ends the process with
SIGBUS. Call `share_samples` before the first metric is created.
"""

import errno
import os
import struct
from contextlib import suppress
from pathlib import Path

#: Size of a file in bytes: more than five times what a process writes to any of them.
BYTES = 128 * 1024
KINDS = ("counter", "histogram", "gauge_livemax", "gauge_mostrecent")
#: The header by which prometheus_client marks a file as having no samples yet.
EMPTY = struct.pack("i", 8)
#: The folders of samples below `metrics_dir`, and the file that holds the pid of the process which serves one.
API_SAMPLES, WORKER_SAMPLES, SERVED = "api", "worker", "served"
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


def share_samples(folder: Path) -> bool:
    """Make this process write its samples to `folder`; False when the disk is full, then its samples are not shared."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for kind in KINDS:
            reserve_file(folder / f"{kind}_{os.getpid()}.db")
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        os.environ.pop("PROMETHEUS_MULTIPROC_DIR", None)
        return False
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    return True


def clear_samples(folder: Path) -> None:
    """Make the folder of samples where it is missing, and delete the samples in it, but no other file.

    Raises OSError where it cannot be written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for place in (folder, folder / API_SAMPLES, folder / WORKER_SAMPLES):
        for name in (SERVED, *(f"{kind}_*.db" for kind in KINDS)):
            for path in place.glob(name):
                path.unlink(missing_ok=True)


def reserve_file(path: Path) -> None:
    """Create an empty file of samples with its disk space reserved; raises OSError, and leaves no file, on a full disk.

    An existing file is not changed.
    """
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        return
    try:
        with os.fdopen(file, "wb") as made:
            made.write(EMPTY.ljust(BYTES, b"\0"))
    except OSError:
        with suppress(FileNotFoundError):
            path.unlink()
        raise
