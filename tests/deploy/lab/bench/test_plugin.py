"""`afterturn bench plugin`: every promise is measured over HTTP beside its floor, and nothing stays behind."""

from pathlib import Path

import pytest

from deploy.lab.bench.plugin import PluginSizes, run, servers
from tests.deploy.lab.bench.test_append import left_behind

pytestmark = pytest.mark.nightly

SMALL = PluginSizes(units=200, large=400, rounds=4, crowd=32, checked=3)
PROMISED = {
    "plugin_write_p50_1_client": "<= 3.0",
    "plugin_write_p95_16_clients": "<= 100.0",
    "plugin_search_p50_200_memories": "<= 2.5",
    "plugin_search_p95_16_clients": "<= 250.0",
    "plugin_search_p50_of_three_namespaces_over_one": "<= 1.5",
    "plugin_search_p95_400_memories": "<= 3.0",
    "plugin_filtered_search_p95_400_memories": "<= 3.0",
    "plugin_filtered_search_recall_at_10_of_exact": ">= 0.99",
}


async def test_every_promise_is_measured_over_http_and_nothing_stays_behind(tmp_path: Path) -> None:
    with servers(tmp_path) as on:
        before = await left_behind(on.servers)
        outcome = await run(on, print, SMALL)
        assert await left_behind(on.servers) == before
    assert {one.measure: str(one.target) for one in outcome.measures} == PROMISED
    named = {one.measure: one for one in outcome.measures}
    assert named["plugin_filtered_search_recall_at_10_of_exact"].ours == 1.0
    assert all(one.ours > 0 and (one.floor is None or one.floor > 0) for one in outcome.measures)
