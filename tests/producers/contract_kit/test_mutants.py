"""The kit passes a plugin that keeps the contract, and catches by name each that falls into one of its traps."""

from pathlib import Path

import pytest

from producers.contract_kit.suite import ContractSuite
from tests.producers.contract_kit.judging import judge_all, list_cases
from tests.producers.contract_kit.mutants import MUTANTS

# They share one run of the mutants: twenty-five processes.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("contract-kit")]

#: The cases that catch each mutant. `make nightly` holds each against every case of the kit.
CATCHING = {name: mutant.caught_by | {"wire.content_type_is_json"} for name, mutant in MUTANTS.items()}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ContractSuite]:
    """The reports of the catching cases, and of one that passes, on every mutant."""
    return judge_all(CATCHING, tmp_path_factory.mktemp("stores"))


def list_failed(report: ContractSuite) -> dict[str, object]:
    return {result.case.id: result.findings for result in report.failed}


def test_a_plugin_with_every_capability_passes_every_case(tmp_path: Path) -> None:
    [report] = judge_all({"reference": ()}, tmp_path).values()
    assert report.counts() == {"passed": len(list_cases()), "failed": 0, "skipped": 0}, report.failed
    assert not report.left_behind


def test_there_are_twenty_five_mutants_of_the_contracts_five_sections() -> None:
    assert len(MUTANTS) == 25
    assert {mutant.trap[:3] for mutant in MUTANTS.values()} == {"1.1", "1.2", "1.3", "1.4", "1.5"}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_fails_exactly_the_cases_of_its_trap(reports: dict[str, ContractSuite], name: str) -> None:
    failed = list_failed(reports[name])
    assert failed.keys() == MUTANTS[name].caught_by, failed


@pytest.mark.nightly
def test_no_other_case_of_the_kit_fails_on_a_mutant(tmp_path: Path) -> None:
    failed = {name: list_failed(report) for name, report in judge_all(dict.fromkeys(MUTANTS, ()), tmp_path).items()}
    assert {name: one.keys() for name, one in failed.items()} == {
        name: mutant.caught_by for name, mutant in MUTANTS.items()
    }, failed
