"""The tests that `make live` runs: each file of the table is there, and so is each test that stays in `make test`."""

import re
import subprocess
import sys

from tests.live import LIVE, ROOT
from tests.tables import each_row


@each_row("file", LIVE)
def test_a_test_that_stays_is_defined_in_its_file(file: str) -> None:
    defined = set(re.findall(r"def (test_\w+)", (ROOT / file).read_text(encoding="utf-8")))
    assert set(LIVE[file]) < defined


def test_what_make_test_leaves_out_is_run_by_make_live_and_by_ci() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    left_out, run = (
        re.findall(rf'^{target}: .*\n.*-m "([^"]+)"', makefile, re.MULTILINE) for target in ("test", "live")
    )
    assert (left_out, run) == (["not nightly and not live"], ["live and not nightly"])
    steps = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert steps.index("make test || make again") + 1 == steps.index("make live || make again")


def test_the_mark_is_set_before_tests_are_chosen() -> None:
    options = ("--collect-only", "-v", "-p", "no:cacheprovider", "-m", "live and not nightly")
    command = [sys.executable, "-m", "pytest", *options, "tests/faults/test_chaos.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert set(re.findall(r"(?:::|Function )(test_\w+)", done.stdout)) == {
        "test_whatever_fails_nothing_is_lost_done_twice_or_out_of_order",
        "test_an_end_in_the_middle_leaves_nothing_behind",
    }, done.stdout
