"""The command runs every bench it names, in its usual size and in full."""

from importlib import import_module
from types import ModuleType

import pytest
from typer.testing import CliRunner

from deploy.cli import bench as command
from deploy.cli.app import build_cli
from deploy.lab.bench.measures import BenchOutcome, Machine
from tests.tables import each_row


@each_row("name", command.BENCHES)
@each_row("flags", [[], ["--full"]], ids=["usual", "full"])
def test_every_bench_has_its_sizes(monkeypatch: pytest.MonkeyPatch, name: str, flags: list[str]) -> None:
    ran = []

    def run(bench: ModuleType, _data: object, sizes: object) -> BenchOutcome:
        ran.append((bench.__name__, sizes))
        return BenchOutcome(Machine(2, "18", "0.8"), [], {})

    monkeypatch.setattr(command, "_run_bench", run)
    done = CliRunner().invoke(build_cli("bench"), ["bench", name, *flags, "--json"])
    assert done.exit_code == 0, done.output
    [(module, sizes)] = ran
    full = import_module(module).FULL
    assert module == command.BENCHES[name]
    assert sizes == (full if flags else type(full)())
