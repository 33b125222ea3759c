"""A real stack of one test alone, and the means to hurt it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.cli.test_live import Live, up


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Live]:
    """The product as `afterturn up --gateway self` runs it, with two workers whose claims end soon after them."""
    options = ("--workers", "2", "--gateway", "self")
    with up(tmp_path / "data", *options, AFTERTURN_WORKER__LEASE_SECONDS="10") as running:
        yield running
