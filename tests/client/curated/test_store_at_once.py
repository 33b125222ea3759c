"""The curated files while many write, and while writers die: whole at every moment, one writer at a time."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from afterturn_client.curated import (
    Limits,
    MemoryBusy,
    MemoryStore,
    Target,
)
from afterturn_client.curated.entries import parse_entries
from afterturn_client.curated.files import lock_folder, read_text

from tests.client.curated.conftest import entries
from tests.client.curated.writer import LENGTH
from tests.patience import PATIENCE_S, wait_until
from tests.processes import spawned

WRITER = Path(__file__).with_name("writer.py")
ROOMY = Limits(memory=100_000, user=100_000)


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    add = [sys.executable, str(WRITER), "add", str(tmp_path)]
    with ExitStack() as ended:
        writers = [ended.enter_context(spawned([*add, name, "25"])) for name in ("ann", "ben", "cara", "dan")]
        assert [writer.wait(PATIENCE_S) for writer in writers] == [0, 0, 0, 0]
    found = parse_entries((tmp_path / "MEMORY.md").read_text())
    assert sorted(found) == sorted(
        f"{name} writes line {n}" for name in ("ann", "ben", "cara", "dan") for n in range(25)
    )
    for name in ("ann", "ben", "cara", "dan"):
        own = [entry for entry in found if entry.startswith(name)]
        assert own == [f"{name} writes line {n}" for n in range(25)]


def test_threads_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    store = MemoryStore(tmp_path, ROOMY, patience_s=PATIENCE_S)

    def write(name: str) -> None:
        for number in range(10):
            store.add(Target.USER, f"{name} {number}")

    threads = [threading.Thread(target=write, args=(f"thread {n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(entries(store, Target.USER)) == 40


@contextmanager
def rewriting(folder: Path) -> Iterator[None]:
    """A process that rewrites the file all the time, killed (SIGKILL) when the block ends."""
    with spawned([sys.executable, str(WRITER), "rewrite", str(folder)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        yield


def is_whole(text: str) -> bool:
    return text == text[:1] * LENGTH


@pytest.mark.slow
def test_a_writer_killed_at_any_moment_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    for turn in range(6):
        with rewriting(tmp_path):
            time.sleep(0.01 + 0.015 * turn)
        assert is_whole((tmp_path / "MEMORY.md").read_text())
    (tmp_path / "MEMORY.md").write_text("")
    (tmp_path / ".MEMORY.md.0.unfinished").write_text("what a writer left that was killed before it was through")
    store = MemoryStore(tmp_path)
    store.add(Target.MEMORY, "life goes on")
    assert entries(store) == ["life goes on"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "MEMORY.md"]


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    seen: list[str] = []

    def many() -> bool:
        text = read_text(tmp_path / "MEMORY.md")
        assert is_whole(text)
        if text[0] not in seen[-1:]:
            seen.append(text[0])
        return len(seen) > 20

    with rewriting(tmp_path):
        wait_until(many, "many a file was read", pause_s=0)


def test_a_write_that_fails_leaves_the_old_file_and_no_trace(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add(Target.MEMORY, "one")

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        store.add(Target.MEMORY, "two")
    assert entries(store) == ["one"]
    assert sorted(path.name for path in store.folder.iterdir()) == [".lock", "MEMORY.md"]


def test_a_lock_that_is_held_for_too_long_is_an_error_and_nothing_changes(tmp_path: Path) -> None:
    store = MemoryStore(tmp_path, patience_s=0.05)
    with lock_folder(tmp_path, 1), pytest.raises(MemoryBusy):
        store.add(Target.MEMORY, "one")
    assert store.add(Target.MEMORY, "one").changed


def test_a_lock_ends_with_its_write_though_a_child_forked_meanwhile_lives_on(tmp_path: Path) -> None:
    with lock_folder(tmp_path, 1), ExitStack() as child:
        (handle,) = (path for path in Path("/proc/self/fd").iterdir() if _opened(path) == tmp_path / ".lock")
        child.callback(os.close, os.dup(int(handle.name)))
        inherited = child.pop_all()
    with inherited, lock_folder(tmp_path, 0.05):
        pass


def _opened(handle: Path) -> Path:
    try:
        return handle.readlink()
    except OSError:
        return Path()
