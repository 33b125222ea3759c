"""A command's own folder: gone with the command, and with the next one when the command was killed."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from deploy.cli.orphaned_databases import find_orphaned_databases
from deploy.components.doctor_checks import DoctorTarget
from deploy.local import cluster
from deploy.local.child import LOGS
from deploy.local.folder_lock import FolderLock
from deploy.local.private_folder import DATA, find_orphaned_folders, open_private_folder
from deploy.settings import load_settings
from tests.patience import PATIENCE_S, wait_until
from tests.processes import spawned

OWN = """
import sys, time, deploy.local.private_folder
with deploy.local.private_folder.open_private_folder("bench") as folder:
    print(folder, flush=True)
    time.sleep(600)
"""
DEMO = [sys.executable, "-P", "-m", "deploy.cli", "demo"]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where private folders are made: a folder of the test's, for its children too."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where root's databases lie, for the test."""
    folder = tmp_path / "system"
    folder.mkdir()
    monkeypatch.setattr(cluster, "SYSTEM_FOLDER", folder)
    return folder


@pytest.fixture
def killed(temporary: Path, system: Path) -> tuple[Path, Path]:
    """The private folder of a command that was killed, and root's database of it."""
    with spawned([sys.executable, "-P", "-c", OWN], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().strip())
        assert folder.parent == temporary
        home = database(system, "0123456789ab", folder / DATA)
        assert find_orphaned_folders() == []
    return folder, home


def database(system: Path, name: str, data: Path | None) -> Path:
    """A database of root's, made for a data folder that leads to it."""
    home = system / name
    (home / "pg").mkdir(parents=True)
    (home / "pg" / "base").write_bytes(b"x" * 3 * 1024**2)
    if data is not None:
        data.mkdir(exist_ok=True, parents=True)
        (home / "data-folder").write_bytes(os.fsencode(data))
        (data / "pg").symlink_to(home / "pg")
    return home


def found(data: Path) -> list[tuple[str, str]]:
    """What the doctor of a data folder says of what was left behind, and what to do."""
    target = DoctorTarget(load_settings({"AFTERTURN_DATA": str(data)}).settings, None)
    return [(one.seen, one.remedy) for one in find_orphaned_databases(target)]


def test_it_is_gone_with_the_command_and_so_is_its_database(temporary: Path, system: Path) -> None:
    with open_private_folder("bench") as folder:
        home = database(system, "0123456789ab", folder / DATA)
        assert find_orphaned_folders() == []
    assert not home.exists()
    assert list(temporary.iterdir()) == []


def test_what_a_killed_command_left_is_named_with_its_size_and_removed_by_the_next(
    killed: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, home = killed
    ((seen, remedy),) = found(tmp_path / "memory")
    assert seen == f"3 MiB in {folder} and {home}, by a command that was killed"
    assert remedy.endswith(f"rm -r {folder} {home}")
    with open_private_folder("demo") as another:
        assert not folder.exists()
        assert not home.exists()
        assert another.exists()
    assert str(home) in capsys.readouterr().err


def test_a_database_whose_private_folder_was_cleared_away_is_found_by_what_it_says_itself(
    killed: tuple[Path, Path], tmp_path: Path
) -> None:
    folder, home = killed
    folder.rename(tmp_path / "cleared")
    ((seen, remedy),) = found(tmp_path / "memory")
    assert seen == f"3 MiB in {home}, by a command that was killed"
    assert remedy.endswith(f"rm -r {home}")
    with open_private_folder("demo"):
        assert not home.exists()


def test_while_its_stack_still_stops_what_a_killed_command_left_is_nobodys_to_remove(killed: tuple[Path, Path]) -> None:
    folder, home = killed
    stopping = FolderLock(folder / DATA)
    with open_private_folder("demo"):
        assert home.exists()
        assert folder.exists()
    stopping.release()


def test_a_stopped_memory_is_nothing_that_was_left_behind(tmp_path: Path, temporary: Path, system: Path) -> None:
    home = database(system, "0123456789ab", tmp_path / "memory")
    assert found(tmp_path / "elsewhere") == []
    with open_private_folder("demo"):
        assert home.exists()
    assert list(temporary.iterdir()) == []


def test_a_memory_whose_folder_is_gone_is_named_and_never_removed(
    tmp_path: Path, temporary: Path, system: Path
) -> None:
    home = database(system, "0123456789ab", tmp_path / "memory")
    (tmp_path / "memory").rename(tmp_path / "moved")
    ((seen, remedy),) = found(tmp_path / "elsewhere")
    assert seen == f"3 MiB in {home}, the database of {tmp_path / 'memory'}"
    assert "if you moved the folder, run `afterturn up` there" in remedy
    assert found(tmp_path / "moved") == []
    unsaid = database(system, "0123456789ab.2", None)
    assert [remedy for seen, remedy in found(tmp_path / "moved") if "an unknown folder" in seen] == [
        f"if the link `pg` of no data folder leads there: rm -r {unsaid}"
    ]
    with open_private_folder("demo"):
        assert home.exists()
        assert unsaid.exists()
    assert list(temporary.iterdir()) == []


def test_a_link_of_that_name_is_not_followed(temporary: Path, tmp_path: Path, system: Path) -> None:
    precious = tmp_path / "precious"
    (precious / "lock").parent.mkdir()
    (precious / "lock").touch()
    (temporary / "afterturn-private-x").symlink_to(precious)
    assert (find_orphaned_folders(), list(system.iterdir())) == ([], [])


def test_an_interrupt_is_answered_and_another_waits_until_all_is_removed(
    temporary: Path, system: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "deploy.local.private_folder.survivors.kill_processes", lambda _gone: signal.raise_signal(signal.SIGINT)
    )
    with pytest.raises(KeyboardInterrupt), open_private_folder("bench"):
        raise KeyboardInterrupt
    assert "interrupted" in capsys.readouterr().err
    assert (list(temporary.iterdir()), list(system.iterdir())) == ([], [])


def test_an_interrupt_is_told_once_however_many_folders_are_open(
    temporary: Path, system: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt), open_private_folder("gateway"), open_private_folder("chaos"):
        raise KeyboardInterrupt
    assert capsys.readouterr().err.count("interrupted") == 1
    assert (list(temporary.iterdir()), list(system.iterdir())) == ([], [])


@pytest.mark.live  # a whole command starts
def test_a_stack_that_is_interrupted_while_it_starts_leaves_nothing(temporary: Path) -> None:
    with spawned(DEMO, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as demo:
        wait_until(lambda: any(temporary.glob("afterturn-private-*/data/logs")), "its servers are being made")
        (folder,) = temporary.glob("afterturn-private-*")
        demo.send_signal(signal.SIGINT)
        _, said = demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == 130
    assert "interrupted: ending" in said
    assert list(temporary.iterdir()) == []
    assert [data for _, data in cluster.list_cluster_folders() if data == folder / DATA] == []


def test_a_database_whose_server_runs_is_neither_named_nor_removed(
    killed: tuple[Path, Path], tmp_path: Path, system: Path
) -> None:
    folder, home = killed
    unsaid = database(system, "0123456789ab.2", None)
    server = tmp_path / "postgres"
    shutil.copy2(shutil.which("sleep") or "", server)
    with spawned([server, "600"], cwd=home / "pg"), spawned([server, "600"], cwd=unsaid / "pg"):
        assert found(tmp_path / "memory") == []
        with open_private_folder("demo"):
            assert folder.exists()
            assert home.exists()


@pytest.mark.usefixtures("system")
def test_when_the_command_fails_the_logs_of_its_servers_are_kept_and_named(
    temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="failed"), open_private_folder("isolation") as folder:
        (folder / DATA / LOGS).mkdir(parents=True)
        (folder / DATA / LOGS / "api.log").write_text("why it failed")
        raise ValueError("failed")
    (kept,) = temporary.iterdir()
    assert [(log.name, log.read_text()) for log in kept.iterdir()] == [("api.log", "why it failed")]
    assert f"are kept in {kept};" in capsys.readouterr().err


@pytest.mark.usefixtures("system")
def test_a_command_that_fails_before_its_servers_wrote_keeps_nothing(temporary: Path) -> None:
    with pytest.raises(ValueError, match="failed"), open_private_folder("isolation") as folder:
        (folder / DATA / LOGS).mkdir(parents=True)
        raise ValueError("failed")
    assert list(temporary.iterdir()) == []


@pytest.mark.usefixtures("system")
def test_logs_that_cannot_be_kept_hide_no_error(
    temporary: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_none(prefix: str) -> str:
        raise OSError(errno.ENOSPC, "No space left on device", prefix)

    with pytest.raises(ValueError, match="failed"), open_private_folder("isolation") as folder:
        (folder / DATA / LOGS).mkdir(parents=True)
        (folder / DATA / LOGS / "api.log").write_text("why it failed")
        monkeypatch.setattr("deploy.local.private_folder.tempfile.mkdtemp", make_none)
        raise ValueError("failed")
    assert list(temporary.iterdir()) == []
    assert "could not all be kept: [Errno 28]" in capsys.readouterr().err
