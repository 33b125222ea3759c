"""The faults that `make laws` plants still have their places: each text it looks for stands once in its file."""

from pathlib import Path

from tests.laws.mutants import MUTANTS

ROOT = Path(__file__).parents[1]


def test_every_planted_fault_finds_its_place() -> None:
    lost = [
        f"{mutant.law} {mutant.fault} ({mutant.file})"
        for mutant in MUTANTS
        if (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.before) != 1
    ]
    assert lost == []
