"""No case of the kit is one that nothing can fail."""

from pathlib import Path

import pytest

from tests.producers.contract_kit.judging import judge, list_cases, served
from tests.producers.contract_kit.mutants import MUTANTS
from tests.producers.contract_kit.slips import SLIPS


@pytest.mark.parametrize("name", SLIPS)
async def test_a_slip_fails_its_cases(name: str, tmp_path: Path) -> None:
    slip, away = SLIPS[name], tmp_path / "away"
    with served(slip.handler, slip.store(away)) as url:
        report = await judge(url, away, slip.cases)
    assert sorted(result.case.id for result in report.failed) == sorted(slip.cases)


def test_every_case_is_failed_by_a_mutant_or_a_slip() -> None:
    caught = {case for mutant in MUTANTS.values() for case in mutant.caught_by}
    slipped = {case for slip in SLIPS.values() for case in slip.cases}
    assert caught | slipped == {case.id for case in list_cases()}
