"""`afterturn bench turns`: every promised measure is taken, beside its floor, and nothing stays behind."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from deploy.lab.bench.recall.speed import RecallServers
from deploy.lab.bench.servers import BenchServers
from deploy.lab.bench.turns import TurnSizes, run
from embeddings.settings import EmbeddingSettings
from store.recall.settings import RecallSettings
from tests.deploy.lab.bench.test_append import left_behind
from tests.servers import TestValkey

pytestmark = pytest.mark.nightly

SMALL = TurnSizes(units=200, rounds=1, turns=2, seconds=1, users=12, facts=60, session=1_000)
PROMISED = {
    "before_p50_1_client": "<= 2.5",
    "after_p50_1_client": "<= 4.0",
    "before_p95_1_client": "<= 60.0",
    "after_p95_1_client": "<= 20.0",
    "before_p95_8_clients": "<= 300.0",
    "after_p95_8_clients": "<= 100.0",
    "before_p95_20_per_s": "<= 300.0",
    "after_p95_20_per_s": "<= 100.0",
    "failed_20_per_s": "<= 0.0",
    "wrong_person_first": "<= 0.0",
    "before_p95_of_each_user": "<= 60.0",
    "after_p95_maintaining_1000": "<= 3.0",
    "listing_p95_of_1000": "<= 300.0",
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
    for name in ("before_p50_1_client", "after_p50_1_client"):
        assert rows[name]["ratio"] == pytest.approx(rows[name]["ours"] / rows[name]["floor"], rel=0.01)
    assert outcome.sizes["units"] == 200
    assert rows["wrong_person_first"]["ours"] == 0
    assert set((await left_behind(on.servers)).values()) == {0}
