"""`afterturn bench portable`: every promised measure is taken, beside its floor, and nothing stays behind."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from deploy.lab.bench.portable import PortableSizes, run
from deploy.lab.bench.recall.speed import RecallServers
from deploy.lab.bench.servers import BenchServers
from embeddings.settings import EmbeddingSettings
from store.recall.settings import RecallSettings
from tests.deploy.lab.bench.test_append import left_behind
from tests.servers import TestValkey

SMALL = PortableSizes(events=600, rounds=1, memory_from=500, memory_to=1_000, calls=5, built=300)
PROMISED = {
    "import_memory_growth_500_to_1000_events": "<= 50.0",
    "import_over_bulk_append": ">= 0.8",
    "words_and_guards_over_analysis": ">= 0.8",
    "export_over_bare_log": ">= 0.5",
    "ack_p95_during_import": "<= 3.0",
    "command_p50_over_single_memory": "<= 1.3",
    "generation_build_over_embedder_alone": ">= 0.9",
    "recall_p95_during_build": "<= 3.0",
}


async def test_every_promise_is_measured_beside_its_floor_and_nothing_stays_behind(
    grounds: BenchServers, valkey: TestValkey, tmp_path: Path
) -> None:
    on = RecallServers(
        grounds, None, tmp_path, "a test", EmbeddingSettings(), RecallSettings(), redis_url=SecretStr(valkey.url)
    )
    outcome = await run(on, lambda _: None, SMALL)
    rows = {row["measure"]: row for row in outcome.as_json()["measures"]}
    assert {name: row["target"] for name, row in rows.items()} == PROMISED
    for name in PROMISED.keys() - {"import_memory_growth_500_to_1000_events"}:
        assert rows[name]["ratio"] == pytest.approx(rows[name]["ours"] / rows[name]["floor"], rel=0.05)
    assert set((await left_behind(on.servers)).values()) == {0}
