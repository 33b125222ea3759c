"""A data folder's keys stay out of git."""

import subprocess
from pathlib import Path

import pytest

from deploy.local.folder_lock import FolderLock
from deploy.local.private_files import IGNORE_FILE, hide_from_git


def add_all(folder: Path) -> list[str]:
    """Return what git would add."""
    told = subprocess.run(["git", "add", "--dry-run", "."], cwd=folder, check=True, capture_output=True, text=True)
    return told.stdout.split()


@pytest.mark.parametrize("earlier", [False, True], ids=["new folder", "folder of an earlier version"])
def test_git_adds_nothing_of_a_data_folder(tmp_path: Path, earlier: bool) -> None:  # noqa: FBT001
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    data = tmp_path / "memory"
    data.mkdir()
    if earlier:
        (data / "api-key").write_text("at_key")
        FolderLock(data).release()
    hide_from_git(data)
    (data / "api-key").write_text("at_key")
    assert add_all(tmp_path) == []


@pytest.mark.parametrize("kept", ["main.py", ".git", IGNORE_FILE])
def test_a_folder_that_holds_other_things_is_left_as_it_is(tmp_path: Path, kept: str) -> None:
    (tmp_path / kept).write_text("x")
    hide_from_git(tmp_path)
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [(kept, "x")]
