"""Tests that share a costly fixture are a group: one process of `--dist loadgroup` makes the fixture, once."""

from collections.abc import Iterable

import pytest

#: Fixtures that live longer than a test and shorter than the run.
SHARED = frozenset({"class", "module", "package"})
#: Fixtures of the run that take seconds to make.
COSTLY = frozenset({"data_folder", "embedder", "ingested"})


def group_by_fixtures(items: Iterable[pytest.Item]) -> None:
    """Mark the tests that use a fixture of their module, or a costly one, as a group, but for those of one already."""
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("xdist_group") is None:
            group = item.nodeid.partition("::")[0] if _shares(item) else min(COSTLY & {*item.fixturenames}, default="")
            if group:
                item.add_marker(pytest.mark.xdist_group(group))


def _shares(item: pytest.Function) -> bool:
    made = item._fixtureinfo.name2fixturedefs  # pytest tells the scope of a fixture nowhere else before it is made
    return any(one.scope in SHARED for name in item.fixturenames for one in made.get(name, ()))
