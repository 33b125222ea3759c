"""Tests of a file that share a fixture are a group: one process of `--dist loadgroup` makes the fixture, once."""

from collections.abc import Iterable

import pytest

#: Fixtures that live longer than a test and shorter than the run.
SHARED = frozenset({"class", "module", "package"})


def group_by_fixtures(items: Iterable[pytest.Item]) -> None:
    """Mark the tests that use a fixture of their module as a group of this file, but for those of a group already."""
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("xdist_group") is None and _shares(item):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


def _shares(item: pytest.Function) -> bool:
    made = item._fixtureinfo.name2fixturedefs  # pytest tells the scope of a fixture nowhere else before it is made
    return any(one.scope in SHARED for name in item.fixturenames for one in made.get(name, ()))
