"""`afterturn chaos` as a person runs it: everything fails while turns come in, and what is tampered with is seen."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from deploy.cli.app import build_cli
from deploy.lab.chaos.faults import FAULTS
from deploy.lab.chaos.outcome import LONGEST_RECOVERY_S
from deploy.local.survivors import is_alive
from tests.patience import PATIENCE_S
from tests.processes import spawned

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("kills")]

COMMAND = [sys.executable, "-P", "-m", "deploy.cli", "chaos", "--lease", "5"]
SABOTAGED = ("--turns", "60", "--workers", "1", "--rounds", "0", "--sabotage")


def chaos(*options: str) -> tuple[int, dict[str, Any], str]:
    done = subprocess.run([*COMMAND, *options, "--json"], capture_output=True, text=True, timeout=900, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.mark.law("L1")
@pytest.mark.law("L2")
@pytest.mark.law("L3")
@pytest.mark.law("L9")
def test_whatever_fails_nothing_is_lost_done_twice_or_out_of_order() -> None:
    _, found, said = chaos("--turns", "400", "--workers", "4")
    # How soon all is well again says how busy the machine is: here it may take three times as long as on a quiet one.
    assert [line for line in said.splitlines() if "does not hold" in line and "recovery_p99_s" not in line] == [], said
    assert found["accepted"] == 400 == found["done"] + found["dead"]
    assert set(found["faults"]) == set(FAULTS)
    assert (found["documents"], found["directives"]) == (20, 20)
    wrong = (
        "lost",
        "applied_twice",
        "out_of_order",
        "gateway_sent_twice",
        "dead_elsewhere",
        "documents_lost",
        "directives_lost",
    )
    assert {name: found[name] for name in wrong} == dict.fromkeys(wrong, 0)
    assert found["tables_equal"]
    assert found["replay_equal"]
    assert found["recovery_samples"] > 0
    assert found["recovery_p99_s"] <= 3 * LONGEST_RECOVERY_S


@pytest.mark.nightly
@pytest.mark.parametrize(
    "sabotage, figures",
    [
        ("drop", ("lost", "documents_lost", "directives_lost")),
        ("reorder", ("out_of_order",)),
        ("double-send", ("gateway_sent_twice",)),
    ],
)
def test_sabotage_is_counted_and_named(sabotage: str, figures: tuple[str, ...]) -> None:
    status, found, said = chaos(*SABOTAGED, sabotage)
    assert (status, {figure: found[figure] for figure in figures}) == (1, dict.fromkeys(figures, 1))
    assert all(f"does not hold: {figure} is 1" in said for figure in figures)


def test_an_end_in_the_middle_leaves_nothing_behind(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [*COMMAND, "--turns", "5000", "--workers", "1"]
    with spawned(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment) as process:
        assert process.stderr is not None
        assert "are on their way" in process.stderr.readline()
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) >= 5
        process.terminate()  # which a command takes for Ctrl-C, see tests/deploy/cli/test_ending.py
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode != 0
    assert not [child for child in children if is_alive(child)]
    assert not list(tmp_path.glob("afterturn-*"))


def test_an_unknown_sabotage_is_wrong_usage() -> None:
    done = CliRunner().invoke(build_cli("chaos"), ["chaos", "--sabotage", "arson"])
    assert done.exit_code == 2
    assert "double-send" in done.stderr
