"""`make laws`: run the laws' tests on the code as it is, then plant each fault in a copy and see them turn red."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.laws.mutants import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]
#: A fault is small: this many lines of product code at most.
LINES_LIMIT = 10
PYTEST_FAILED = 1


def main() -> int:
    """Return 0 when the laws' tests are green on the code and red on every fault."""
    with tempfile.TemporaryDirectory(prefix="afterturn-laws-") as folder:
        copy = _copy(Path(folder) / "tree")
        named = sorted({test for mutant in MUTANTS for test in _ids(mutant)})
        if not _green(copy, named):
            print("the laws' tests are not green on the code as it is", file=sys.stderr)
            return 1
        print(f"{len(named)} tests hold {len({m.law for m in MUTANTS})} laws on the code as it is", flush=True)
        missed = [mutant for mutant in MUTANTS if not _caught(copy, mutant)]
    print(f"{len(MUTANTS) - len(missed)} of {len(MUTANTS)} planted faults were caught")
    return 1 if missed else 0


def _copy(target: Path) -> Path:
    # --others: a file not yet committed counts too; what is ignored does not.
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in filter(None, subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")):
        if (source := ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    return target


def _pytest(copy: Path, tests: list[str]) -> "subprocess.CompletedProcess[str]":
    path = f"{copy}{os.pathsep}{copy / 'producers' / 'client'}"
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *tests],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def _ids(mutant: Mutant) -> list[str]:
    return [f"{mutant.held_by}::{test}" for test in mutant.tests]


def _green(copy: Path, tests: list[str]) -> bool:
    run = _pytest(copy, tests)
    if run.returncode:
        print(run.stdout[-4000:], run.stderr[-2000:], file=sys.stderr)
    return run.returncode == 0


def _caught(copy: Path, mutant: Mutant) -> bool:
    """Plant the fault, see every one of its tests fail, and mend it again."""
    file = copy / mutant.file
    sound = file.read_text(encoding="utf-8")
    if sound.count(mutant.before) != 1 or max(mutant.before.count("\n"), mutant.after.count("\n")) > LINES_LIMIT:
        print(f"{mutant.law} {mutant.fault}: the fault does not fit the code any more; rewrite it", file=sys.stderr)
        return False
    file.write_text(sound.replace(mutant.before, mutant.after), encoding="utf-8")
    try:
        run = _pytest(copy, _ids(mutant))
    finally:
        file.write_text(sound, encoding="utf-8")
    # An error while collecting or in a fixture is no verdict: the tests themselves must have failed, all of them.
    closing = run.stdout.strip().rpartition("\n")[2]
    caught = run.returncode == PYTEST_FAILED and closing.startswith(f"{len(mutant.tests)} failed in")
    print(f"{mutant.law} {mutant.fault}: {'caught' if caught else 'NOT CAUGHT: ' + closing}", flush=True)
    return caught


if __name__ == "__main__":
    sys.exit(main())
