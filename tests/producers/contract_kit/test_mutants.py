"""The kit passes a plugin that keeps the contract, and catches by name each that falls into one of its traps."""

import pytest

from producers.contract_kit.catalog import CASES
from producers.contract_kit.report import ContractReport
from tests.producers.contract_kit.judging import judge_all
from tests.producers.contract_kit.mutants import MUTANTS

# They share one run of everything: twenty-six processes, each held against the whole kit.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("contract-kit")]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ContractReport]:
    """The whole kit's reports on the reference and on every mutant."""
    return judge_all(["reference", *MUTANTS], tmp_path_factory.mktemp("stores"))


def test_a_plugin_with_every_capability_passes_every_case(reports: dict[str, ContractReport]) -> None:
    report = reports["reference"]
    assert report.counts() == {"passed": len(CASES), "failed": 0, "skipped": 0}, report.failed
    assert not report.left_behind


def test_there_are_twenty_five_mutants_of_the_contracts_five_sections() -> None:
    assert len(MUTANTS) == 25
    assert {mutant.trap[:3] for mutant in MUTANTS.values()} == {"1.1", "1.2", "1.3", "1.4", "1.5"}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_fails_exactly_the_cases_of_its_trap(reports: dict[str, ContractReport], name: str) -> None:
    failed = {result.case.id: result.findings for result in reports[name].failed}
    assert failed.keys() == MUTANTS[name].caught_by, failed
