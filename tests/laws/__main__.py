"""`make laws`: run the laws' tests on the code as it is, then plant each fault in a copy and see them turn red."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from queue import SimpleQueue

from tests.laws.mutant import Mutant
from tests.laws.mutants import LAWS, MUTANTS
from tests.servers import LENT, Servers

ROOT = Path(__file__).resolve().parents[2]
#: So many faults are planted at a time, each in a copy of its own.
LANES = 2
#: A fault is small: this many lines of product code at most.
LINES_LIMIT = 10
#: When each planted file was changed: never twice at the same time.
SECONDS = count(1)
#: What the schema of a database is made of: a fault in it needs a template of its own.
SCHEMA = ("store/sql/", "store/migrations/")


@dataclass(frozen=True, slots=True)
class Lane:
    """A copy of the code, and the servers its tests may use: a Valkey number is the lane's own."""

    copy: Path
    servers: dict[str, str]

    def pytest(self, tests: Sequence[str], *options: str, schema: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run tests of the copy; with `schema` its database is that of the code as it is."""
        lent = {name: value for name, value in self.servers.items() if schema or name != "template"}
        path = f"{self.copy}{os.pathsep}{self.copy / 'producers' / 'client'}"
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, *tests],
            cwd=self.copy,
            # Compiled code is kept from one fault to the next.
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "", LENT: json.dumps(lent)},
            capture_output=True,
            text=True,
            check=False,
        )


def main(chosen: Sequence[str], each: int) -> int:
    """Return 0 when the laws' tests are green on the code and red on the first `each` faults of these laws, or of all.

    A law without a fault is a failure.
    """
    mutants = list(_choose(chosen, each))
    broken = {mutant.law for mutant in mutants}
    if unbroken := [law for law in chosen or LAWS if law not in broken]:
        print(f"no fault is planted for {', '.join(unbroken)}", file=sys.stderr)
        return 1
    with _lanes() as lanes:
        named = sorted({test for mutant in mutants for test in _ids(mutant)})
        if not _green(lanes[0], named):
            print("the laws' tests are not green on the code as it is", file=sys.stderr)
            return 1
        print(f"{len(named)} tests hold {len(broken)} laws on the code as it is", flush=True)
        free = SimpleQueue[Lane]()
        for lane in lanes:
            free.put(lane)
        with ThreadPoolExecutor(LANES) as pool:
            caught = list(pool.map(lambda mutant: _caught(free, mutant), mutants))
    print(f"{sum(caught)} of {len(mutants)} planted faults were caught")
    for mutant, was_caught in zip(mutants, caught, strict=True):
        if not was_caught:
            print(f"escaped: {mutant.law} {mutant.fault} ({mutant.held_by})", file=sys.stderr)
    return 0 if all(caught) else 1


def _choose(chosen: Sequence[str], each: int) -> Iterator[Mutant]:
    counted = Counter[str]()
    for mutant in MUTANTS:
        counted[mutant.law] += 1
        if (not chosen or mutant.law in chosen) and counted[mutant.law] <= each:
            yield mutant


@contextmanager
def _lanes() -> Iterator[list[Lane]]:
    servers = Servers()
    with tempfile.TemporaryDirectory(prefix="afterturn-laws-") as folder:
        try:
            urls = servers.urls()
            server = urls["valkey"].rpartition("/")[0]
            yield [Lane(_copy(Path(folder) / f"{n}"), urls | {"valkey": f"{server}/{n}"}) for n in range(LANES)]
        finally:
            servers.stop()


def _copy(target: Path) -> Path:
    # --others: a file not yet committed counts too; what is ignored does not.
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in filter(None, subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")):
        if (source := ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    return target


def _ids(mutant: Mutant) -> list[str]:
    return [f"{mutant.held_by}::{test}" for test in mutant.tests]


def _green(lane: Lane, tests: list[str]) -> bool:
    run = lane.pytest(tests, "-n", str(LANES))
    if run.returncode:
        print(run.stdout[-4000:], run.stderr[-2000:], file=sys.stderr)
    return run.returncode == 0


def _caught(free: SimpleQueue[Lane], mutant: Mutant) -> bool:
    """Plant the fault in a free copy, see every one of its tests fail, and mend it again."""
    lane = free.get()
    file = lane.copy / mutant.file
    sound = file.read_text(encoding="utf-8")
    try:
        if sound.count(mutant.before) != 1 or max(mutant.before.count("\n"), mutant.after.count("\n")) > LINES_LIMIT:
            print(f"{mutant.law} {mutant.fault}: the fault does not fit the code any more; rewrite it", file=sys.stderr)
            return False
        _write(file, sound.replace(mutant.before, mutant.after))
        run = lane.pytest(_ids(mutant), "-rf", schema=not mutant.file.startswith(SCHEMA))
    finally:
        _write(file, sound)
        free.put(lane)
    # An error while collecting or in a fixture is no verdict: the tests themselves must have failed, all of them.
    failed = {line.removeprefix("FAILED ").partition(" - ")[0] for line in run.stdout.splitlines()}
    caught = failed.issuperset(_ids(mutant))
    closing = run.stdout.strip().rpartition("\n")[2]
    print(f"{mutant.law} {mutant.fault}: {'caught' if caught else 'NOT CAUGHT: ' + closing}\n", end="", flush=True)
    return caught


def _write(file: Path, code: str) -> None:
    """Write what nobody takes for compiled already: Python knows a file by its size and second."""
    file.write_text(code, encoding="utf-8")
    second = next(SECONDS)
    os.utime(file, (second, second))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.laws", description=__doc__)
    parser.add_argument("laws", nargs="*", metavar="LAW", help="L1, L2, ... (default: all)")
    parser.add_argument("--each", type=int, default=len(MUTANTS), metavar="N", help="faults of each law (default: all)")
    options = parser.parse_args()
    sys.exit(main(options.laws, options.each))
