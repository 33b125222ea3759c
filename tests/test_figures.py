from typing import Literal

import pytest

from tests.figures import FIGURE, shown


def _report(name: str, *properties: tuple[str, object], when: Literal["setup", "call"] = "call") -> pytest.TestReport:
    return pytest.TestReport(name, ("", None, ""), {}, "passed", None, when, user_properties=properties)


def test_figures_are_shown_by_the_names_of_their_tests_and_once() -> None:
    properties = (FIGURE, "precision 0.9"), ("other", "not a figure"), (FIGURE, "recall 0.8")
    reports = [_report("b", (FIGURE, "last")), _report("a", *properties), _report("a", *properties, when="setup")]
    assert shown(reports) == ["precision 0.9", "recall 0.8", "last"]
