"""Tests that share a stack, or must not run side by side, are a group: one process runs them all.

With pytest 9.2, pytest-xdist 3.8 ignores groups without a word (its issue 1386).
"""

import pytest


@pytest.mark.xdist_group("groups")
def test_a_group_reaches_the_scheduler(request: pytest.FixtureRequest) -> None:
    if not hasattr(request.config, "workerinput") or not request.config.getoption("loadgroup"):
        pytest.skip("the tests run in one process, or without --dist loadgroup")
    assert request.node.nodeid.endswith("@groups")
