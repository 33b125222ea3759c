"""One `up` for one data folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local.folder_lock import FolderInUse, FolderLock, is_held
from tests.processes import spawned

HOLD = """
import sys, pathlib, time, deploy.local.folder_lock
lock = deploy.local.folder_lock.FolderLock(pathlib.Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def test_a_second_lock_is_refused_and_names_the_process_that_holds_the_first(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    with pytest.raises(FolderInUse, match=f"in use by process {os.getpid()}: stop that one, or use another --data"):
        FolderLock(tmp_path)
    lock.release()


def test_a_lock_that_was_let_go_can_be_taken_again(tmp_path: Path) -> None:
    FolderLock(tmp_path).release()
    assert not is_held(tmp_path)
    lock = FolderLock(tmp_path)
    assert is_held(tmp_path)
    lock.release()


def test_the_kernel_lets_go_when_the_holder_is_killed(tmp_path: Path) -> None:
    with spawned([sys.executable, "-P", "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert is_held(tmp_path)
        holder.kill()
    assert not is_held(tmp_path)
    FolderLock(tmp_path).release()


def test_a_folder_without_a_lock_file_is_not_held_and_gets_none_by_asking(tmp_path: Path) -> None:
    assert not is_held(tmp_path)
    assert list(tmp_path.iterdir()) == []
