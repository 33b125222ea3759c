"""Figures that a run shows at its end, in whichever process of it they were found."""

from collections.abc import Iterable

import pytest

#: The name of a property of a test (`record_property`) that is shown when the run is over.
FIGURE = "figure"


def shown(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Return the figures of these reports, in the order of the tests' names."""
    ordered = sorted((report for report in reports if report.when == "call"), key=lambda report: report.nodeid)
    return [str(value) for report in ordered for name, value in report.user_properties if name == FIGURE]
