"""Files of metrics samples whose space is taken before the processes map them into memory.

The library of metrics makes them sparse: on a full disk, the first write to a page of theirs that has no place yet
ends the process with SIGBUS. Call this before the first metric is made.
"""

import errno
import os
import struct
from contextlib import suppress
from pathlib import Path

#: More than five times what a process of ours writes to any of them.
BYTES = 128 * 1024
KINDS = ("counter", "histogram", "gauge_livemax", "gauge_mostrecent")
#: How the library says that a file has room for samples and holds none yet.
EMPTY = struct.pack("i", 8)
#: The folders of samples below `metrics_dir`, and the file that holds the pid of the process which serves one.
API_SAMPLES, WORKER_SAMPLES, SERVED = "api", "worker", "served"
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


def share_samples(folder: Path) -> bool:
    """Let this process leave its samples in `folder`; False, and they stay its own, where the disk has no space."""
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


def reserve_file(path: Path) -> None:
    """Make a file of samples, empty and with all its space; raises OSError, and leaves none, where there is not enough.

    One that exists stays as it is.
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
