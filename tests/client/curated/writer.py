"""Processes of their own that change a store: what locks and atomic writes are for."""

import itertools
import sys
from pathlib import Path

from afterturn_client.curated import Limits, MemoryStore, Target
from afterturn_client.curated.files import lock_folder, replace_text

#: How many characters a rewritten file has.
LENGTH = 4_000_000


def add_many(folder: str, name: str, count: int) -> None:
    """Add `count` entries, one after the other."""
    store = MemoryStore(Path(folder), Limits(memory=1_000_000), patience_s=120)
    for number in range(count):
        store.add(Target.MEMORY, f"{name} writes line {number}")


def rewrite_for_ever(folder: str) -> None:
    """Put one long text of a single letter in the place of another, until killed; the disk is busy all the time."""
    path = Path(folder) / Target.MEMORY.file_name
    for letter in itertools.cycle("abcdefghij"):
        with lock_folder(path.parent, 120):
            replace_text(path, letter * LENGTH)
        print("written", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "add":
        add_many(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        rewrite_for_ever(sys.argv[2])
