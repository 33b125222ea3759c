"""`afterturn bench plugin`: six calls beside their floors, and nothing of the bench stays behind."""

import pytest

from deploy.lab.bench.plugin import Sizes, run
from deploy.lab.bench.servers import BenchServers

pytestmark = pytest.mark.nightly


async def test_every_call_is_measured_beside_its_floor(grounds: BenchServers) -> None:
    outcome = await run(grounds, print, Sizes(units=60, namespaces=3, rounds=3))
    assert len(outcome.measures) == 6
    assert all(one.floor and one.ours > 0 for one in outcome.measures)
