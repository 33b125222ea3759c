"""Tests that share a stack, or must not run side by side, are a group: one process runs them all.

With pytest 9.2, pytest-xdist 3.8 ignores groups without a word (its issue 1386).
"""

from pathlib import Path

import pytest


@pytest.mark.xdist_group("groups")
def test_a_group_reaches_the_scheduler(request: pytest.FixtureRequest) -> None:
    if not hasattr(request.config, "workerinput") or not request.config.getoption("loadgroup"):
        pytest.skip("the tests run in one process, or without --dist loadgroup")
    assert request.node.nodeid.endswith("@groups")


@pytest.fixture(scope="module")
def shared() -> int:
    return 1


@pytest.mark.usefixtures("shared")
def test_tests_that_use_a_fixture_of_their_module_are_a_group(request: pytest.FixtureRequest) -> None:
    [group] = request.node.iter_markers("xdist_group")
    assert group.args == (request.node.nodeid.partition("::")[0],)


@pytest.fixture
def ingested() -> int:
    """One of the names of costly fixtures."""
    return 1


@pytest.mark.usefixtures("ingested")
def test_tests_that_use_a_costly_fixture_are_a_group(request: pytest.FixtureRequest) -> None:
    [group] = request.node.iter_markers("xdist_group")
    assert group.args == ("ingested",)


def test_tests_without_one_are_none(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    del tmp_path
    assert list(request.node.iter_markers("xdist_group")) == []
